// A rate limit for each app, with bursts.
import { Allowance } from '../../resources/allowance.ts';

export class AppAllowances {
  readonly #perSecond: number;
  readonly #savedS: number;
  readonly #byApp = new Map<string, Allowance>();

  /** @param savedS the largest burst, in seconds of the rate */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#savedS = savedS;
  }

  /** Whether the rate allows an app one more item. If so, counts the item. */
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
