// Detects an app that keeps a CPU core busy. Its process then runs at low priority, so that requests to other apps do not
// wait.
import { toLowPriority, toNormalPriority } from '../../resources/low-priority-group.ts';

/** A process that uses more than this share of a core becomes busy. */
const BUSY = 0.5;
/** A busy process that uses at most this share of a core is calm. */
const CALM = 0.25;
/** Shortest time between two meaningful readings, in ms: the kernel counts CPU time in ticks of 10 ms. */
const READ_EVERY_MS = 500;
/** Time for which a busy process must be calm to return to normal priority, in ms. */
const CALM_MS = 10_000;

/** Core use of an app's processes, one after another. Each process begins with the priority of the previous one. */
export class CoreUse {
  #pid = 0;
  #last = { cpuMs: 0, at: 0 };
  #busy = false;
  #busyAt = 0;

  /** @param at when the process was started, as `performance.now()` */
  begin(pid: number, at = performance.now()): void {
    this.#pid = pid;
    this.#last = { cpuMs: 0, at };
    this.#busyAt = at;
    if (this.#busy) void toLowPriority(pid);
  }

  /** Updates the priority. Call about once a second with the process's CPU time since its start, in ms. */
  look(cpuMs: number, now = performance.now()): void {
    const passed = now - this.#last.at;
    if (passed < READ_EVERY_MS) return;
    const share = (cpuMs - this.#last.cpuMs) / passed;
    this.#last = { cpuMs, at: now };
    if (share > CALM) this.#busyAt = now;
    if (!this.#busy && share > BUSY) {
      this.#busy = true;
      void toLowPriority(this.#pid);
    } else if (this.#busy && now - this.#busyAt > CALM_MS) this.forgive();
  }

  /** Returns the process to normal priority. */
  forgive(): void {
    if (this.#busy) void toNormalPriority(this.#pid);
    this.#busy = false;
  }
}
