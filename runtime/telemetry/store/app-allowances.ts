// How many things a second each app may have: what it did not use it may use at once later.
import { Allowance } from '../../resources/allowance.ts';

export class AppAllowances {
  readonly #perSecond: number;
  readonly #savedS: number;
  readonly #byApp = new Map<string, Allowance>();

  /** @param savedS how many seconds' worth can be saved up */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#savedS = savedS;
  }

  /** Whether an app may have one more, which is counted then. */
  takes(appId: string): boolean {
    let allowance = this.#byApp.get(appId);
    if (allowance === undefined) {
      allowance = new Allowance(this.#perSecond, this.#savedS);
      this.#byApp.set(appId, allowance);
    }
    if (allowance.left() < 1) return false;
    allowance.use(1);
    return true;
  }

  /** Forgets the apps that may have as much as those of which nothing is known. */
  tidy(): void {
    for (const [appId, allowance] of this.#byApp) if (allowance.isFull) this.#byApp.delete(appId);
  }

  forget(appId: string): void {
    this.#byApp.delete(appId);
  }
}
