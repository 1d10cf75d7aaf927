// Whether an app keeps a core busy. Then its process works in the background, and visitors of others do not wait for it.
import { toLowPriority, toNormalPriority } from '../../resources/low-priority-group.ts';

/** Share of a core's time from which on a process counts as busy, and the share below which it counts as calm. */
const BUSY = 0.5;
const CALM = 0.25;
/** Shortest time between two readings that tell something, in ms: the kernel counts in ticks of 10. */
const READ_EVERY_MS = 500;
/** A process that was calm for this long, in ms, is treated like all others again. */
const CALM_MS = 10_000;

/** What one app's processes use of a core, one after another: the next begins as the one before ended. */
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

  /** To be called about once a second with the CPU time that the process has used since its start, in ms. */
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

  /** Treats the process like all others again. */
  forgive(): void {
    if (this.#busy) void toNormalPriority(this.#pid);
    this.#busy = false;
  }
}
