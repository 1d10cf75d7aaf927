// Collects the next batch for the telemetry thread.
import type { RequestRecord } from '../edge/log/record.ts';
import type { Batch, Failure, Kind, OutputPiece, Said, Usage } from './protocol.ts';
import { RequestLines } from './traces/request-lines.ts';
import { KINDS, none } from './under-way.ts';

export class NextBatch {
  readonly #requests = new RequestLines();
  #usage = new Map<string, Required<Usage>>();
  #output: Batch['output'] = [];
  #said: Batch['said'] = [];
  #failures: Batch['failures'] = [];
  /** Total size of the batch's items of each kind, in the units of `PENDING_LIMITS`. */
  sizes = none();
  counts = none();

  get isEmpty(): boolean {
    return this.#usage.size === 0 && KINDS.every((kind) => this.counts[kind] === 0);
  }

  /** Counts an item. Call it before the item is added. */
  count(kind: Kind, size: number): void {
    this.sizes[kind] += size;
    this.counts[kind]++;
  }

  /** @param line the record as text, from `requestLine` */
  addRequest(record: RequestRecord, line: string): void {
    this.#requests.add(record, line);
  }

  addOutput(piece: OutputPiece): void {
    this.#output.push(piece);
  }

  addSaid(appId: string, said: Said): void {
    this.#said.push({ appId, ...said });
  }

  addFailure(appId: string, failure: Failure): void {
    this.#failures.push({ appId, ...failure });
  }

  addUsage(appId: string, { cpuMs = 0, memoryBytes = 0, processes = 0, wakes = 0 }: Usage): void {
    const kept = this.#usage.get(appId);
    if (kept === undefined) this.#usage.set(appId, { cpuMs, memoryBytes, processes, wakes });
    else {
      kept.cpuMs += cpuMs;
      kept.memoryBytes = Math.max(kept.memoryBytes, memoryBytes);
      kept.processes = processes;
      kept.wakes += wakes;
    }
  }

  /** Returns the batch, and starts an empty one. */
  take(seq: number): Batch {
    const at = Date.now();
    const batch: Batch = {
      seq,
      requests: this.#requests.take(),
      usage: [...this.#usage].map(([appId, usage]) => ({ appId, at, ...usage })),
      output: this.#output,
      said: this.#said,
      failures: this.#failures,
    };
    this.#usage = new Map();
    this.#output = [];
    this.#said = [];
    this.#failures = [];
    this.sizes = none();
    this.counts = none();
    return batch;
  }
}
