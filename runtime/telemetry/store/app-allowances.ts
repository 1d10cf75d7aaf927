// A rate limit for each app, with bursts.
import { Allowance } from '../../resources/allowance.ts';

export class AppAllowances {
  readonly #perSecond: number;
  readonly #savedS: number;
  readonly #byApp = new Map<string, Allowance>();

  /** @param savedS the largest burst: as many items as the rate allows in this many seconds */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#savedS = savedS;
  }

  /** Counts one item of an app, if the rate limit allows it. @returns whether it does */
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

  /** Forgets apps whose whole burst is available again. */
  tidy(): void {
    for (const [appId, allowance] of this.#byApp) if (allowance.isFull) this.#byApp.delete(appId);
  }

  forget(appId: string): void {
    this.#byApp.delete(appId);
  }
}
