// Whether this host may run apps that other hosts could run too. It may after the control plane has said which apps,
// but not while it is cut off from the control plane.
import { aborted } from '../threads/aborted.ts';

/** Why an app in the bucket has no process. */
export const CUT_OFF =
  'This host does not reach the control plane, so another host may run the app; it starts again by itself when it does';

export class Gate {
  readonly #opened = Promise.withResolvers<void>();
  #isShut = false;

  /** Whether the host is cut off. False at first, although apps wait until `open`. */
  get isShut(): boolean {
    return this.#isShut;
  }

  /** Call it when the control plane has answered, after `settle` has handed over the apps whose home is another host. */
  open(): void {
    this.#isShut = false;
    this.#opened.resolve();
  }

  /** Call it when the control plane has not answered for too long. */
  shut(): void {
    this.#isShut = true;
  }

  /** Resolves when the host may run apps. @throws {Error} while it is cut off; the signal's reason once it is aborted */
  async pass(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#opened.promise, aborted(signal)]);
    // With an open gate, the race ignores an aborted signal.
    signal.throwIfAborted();
    if (this.#isShut) throw new Error(CUT_OFF);
  }
}
