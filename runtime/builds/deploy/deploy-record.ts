// What is known of one deploy, its row and its log: kept in the host's database and told to the control plane.
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import { type Level, logRarely, reason } from '../../log.ts';
import { DeployLog } from './deploy-log.ts';
import { LineBatch } from './line-batch.ts';

/** The steps of a deploy under way are written, and its lines told, at most this often, in ms. */
const PROGRESS_MS = 100;
/** Its log, which may have 64 KiB, is written at most this often, in ms. */
const LOG_MS = 1_000;
/** A write that failed, on a full disk for example, is tried again after this long, in ms. */
const RETRY_MS = 1_000;
/** While so many facts wait for the control plane, lines stay in their batch, which is bounded. */
const FACTS_WAITING = 100;

/** Where a record is kept, and who hears of it. */
export interface RecordOptions {
  store: HostStore;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

export class DeployRecord {
  readonly log: DeployLog;
  readonly #options: RecordOptions;
  /** The earlier deploy whose release is started again; `null` for any other. */
  readonly #releaseOf: string | null;
  /** Lines that the control plane has not been told. */
  readonly #untold = new LineBatch();
  #fact: DeployFact;
  /** Whether the row has changed since it was written; the log may have grown besides. */
  #isChanged = false;
  #progress: NodeJS.Timeout | null = null;
  #saving: NodeJS.Timeout | null = null;

  /**
   * Writes down that there is such a deploy.
   * @param releaseOf the earlier deploy whose release is started again; `null` for any other
   * @param onLine called with each line of the log
   * @throws when it cannot be written: then there is no such deploy
   */
  constructor(
    options: RecordOptions,
    fact: DeployFact,
    releaseOf: string | null,
    onLine: (line: string, level: Level) => void,
  ) {
    this.#options = options;
    this.#fact = fact;
    this.#releaseOf = releaseOf;
    this.log = new DeployLog({
      onLine: (line, level) => {
        onLine(line, level);
        this.#untold.add(line);
        this.#tellSoon(PROGRESS_MS);
        this.#saveLogSoon(LOG_MS);
      },
      onSteps: (steps) => {
        this.#set({ steps });
        this.#tellSoon(PROGRESS_MS);
      },
    });
    options.store.transaction(() => this.#saveAll());
    options.onFacts();
  }

  /** The row as it is now. */
  get fact(): Readonly<DeployFact> {
    return this.#fact;
  }

  /** Changes the row, writes it and tells the control plane at once. Never throws: a failed write is tried again. */
  change(change: Partial<DeployFact>): void {
    this.#set(change);
    this.write();
  }

  /**
   * Changes the row in one transaction with what `writeRest` writes.
   * @throws what fails; then nothing has changed
   */
  changeWith(change: Partial<DeployFact>, writeRest: () => void): void {
    const before = this.#fact;
    this.#fact = { ...before, ...change };
    try {
      this.#options.store.transaction(() => {
        writeRest();
        this.#saveAll();
      });
    } catch (error) {
      this.#fact = before;
      throw error;
    }
  }

  /** Writes what has changed and tells the control plane. Never throws: a failed write is tried again. */
  write(): void {
    if (this.#progress) clearTimeout(this.#progress);
    if (this.#saving) clearTimeout(this.#saving);
    this.#progress = this.#saving = null;
    const save = () => {
      if (this.#isChanged) return this.#saveAll();
      this.#tellLines();
      this.#saveLog();
    };
    if (this.#transact(save)) this.#isChanged = false;
    else {
      this.#tellSoon(RETRY_MS);
      this.#saveLogSoon(RETRY_MS);
    }
  }

  /** Writes the row, if it has changed, and tells the lines that nobody was told. */
  #tell(): void {
    this.#progress = null;
    if (this.#isChanged) {
      this.write();
      return;
    }
    const { outbox } = this.#options.store;
    const told = this.#transact(() => {
      if (!outbox.hasMoreThan(FACTS_WAITING)) this.#tellLines();
    });
    if (!told) this.#tellSoon(RETRY_MS);
  }

  #tellSoon(delayMs: number): void {
    this.#progress ??= setTimeout(() => this.#tell(), delayMs).unref();
  }

  #saveLogSoon(delayMs: number): void {
    this.#saving ??= setTimeout(() => {
      this.#saving = null;
      if (!this.#transact(() => this.#saveLog())) this.#saveLogSoon(RETRY_MS);
    }, delayMs).unref();
  }

  /** @returns whether all of it was written */
  #transact(save: () => void): boolean {
    const { store, onFacts } = this.#options;
    try {
      store.transaction(save);
      onFacts();
      return true;
    } catch (error) {
      logRarely('error', 'a deploy could not be recorded; it is tried again', {
        deploy: this.#fact.id,
        error: reason(error),
      });
      return false;
    }
  }

  #set(change: Partial<DeployFact>): void {
    this.#fact = { ...this.#fact, ...change };
    this.#isChanged = true;
  }

  /** Writes the row and the log, in the transaction around this call. */
  #saveAll(): void {
    const { deploys, outbox } = this.#options.store;
    // The lines come before the row: whoever learns of the deploy's end has had every line.
    this.#tellLines();
    deploys.save(this.#fact, this.#releaseOf);
    this.#saveLog();
    outbox.add({ type: 'deploy', deploy: this.#fact });
  }

  #saveLog(): void {
    this.#options.store.deploys.saveLog(this.#fact.id, this.log.text);
  }

  #tellLines(): void {
    const lines = this.#untold.take();
    const { id, app_id } = this.#fact;
    if (lines.length > 0)
      this.#options.store.outbox.add({ type: 'lines', lines: { app_id, deploy_id: id, lines } });
  }
}
