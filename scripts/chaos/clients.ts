// Clients that change data of each kind (`facts.ts`) again and again while machines fail. Checks afterwards that no
// acknowledged change is missing.
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/support/processes.ts';
import type { Fact } from './facts.ts';

/** Timeout for each check after a failure, in ms. */
const RECOVERY_MS = 60_000;
/** Timeout for messages and Workflows after the last failure, in ms. */
const DELIVERED_MS = 120_000;
const LATE = ['queue', 'workflow'];

export class Clients {
  readonly problems: string[] = [];
  /** The facts that a client is changing now, by name, with the time at which it began (`performance.now()`). */
  readonly underWay = new Map<string, number>();
  readonly #facts: Record<string, Fact>;
  readonly #counts = new Map<string, { acknowledged: number; failed: number; reason: string }>();
  readonly #running: Promise<void>[];
  #ending = false;

  constructor(facts: Record<string, Fact>) {
    this.#facts = facts;
    this.#running = Object.entries(facts).map(([name, fact]) => this.#changeAgainAndAgain(name, fact));
  }

  /** Ends the clients. Resolves when their last changes have ended. */
  async end(): Promise<void> {
    this.#ending = true;
    await Promise.all(this.#running);
  }

  /** Checks all facts but those in `LATE`. Adds what is missing to `problems`. */
  async check(when: string): Promise<void> {
    for (const [name, fact] of Object.entries(this.#facts))
      if (!LATE.includes(name)) await this.#check(name, fact, when, RECOVERY_MS);
  }

  /** Checks the facts in `LATE`: messages and Workflows take time to be delivered or to end. */
  async checkLate(): Promise<void> {
    for (const name of LATE) await this.#check(name, this.#facts[name]!, 'at the end', DELIVERED_MS);
  }

  print(): void {
    for (const [name, { acknowledged, failed, reason }] of this.#counts)
      console.log(
        `${name}: ${acknowledged} acknowledged, ${failed} failed, the last one: ${reason.slice(0, 200)}`,
      );
    console.log(this.problems.length === 0 ? 'nothing is lost, nothing is stuck' : this.problems.join('\n'));
  }

  async #changeAgainAndAgain(name: string, fact: Fact): Promise<void> {
    const count = { acknowledged: 0, failed: 0, reason: '' };
    this.#counts.set(name, count);
    while (!this.#ending) {
      this.underWay.set(name, performance.now());
      try {
        await fact.change();
        count.acknowledged++;
      } catch (error) {
        count.failed++;
        count.reason = (error as Error).message;
      }
      this.underWay.delete(name);
      await sleep(fact.pauseMs);
    }
  }

  async #check(name: string, fact: Fact, when: string, deadlineMs: number): Promise<void> {
    let found = 'nothing answered';
    const isWhole = async () => {
      const missing = await fact.missing();
      found = `${missing.length} are missing: ${missing.slice(0, 5).join('; ')}`;
      return missing.length === 0;
    };
    const failed = (error: Error) => {
      found = error.message;
      return false;
    };
    await eventually(() => isWhole().catch(failed), name, deadlineMs).catch(() => {
      this.problems.push(`${when}: ${name}: ${found}`);
      console.log(`${new Date().toISOString()} ${this.problems.at(-1)}`);
    });
  }
}
