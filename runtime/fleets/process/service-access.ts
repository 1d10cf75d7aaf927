// An app's way to the other apps of its owner.
import type { ServiceBinding } from '../../../bundler/release.ts';

/** What the process of an app may ask of other apps, each in the order of its numbers. */
export interface Calls {
  /** Bindings to other apps. */
  services: ServiceBinding[];
  /** Queues that other apps consume. */
  queues: string[];
}

export interface ServiceAccess {
  /** Path of the socket at which the host takes this app's calls. */
  socket: string;
  /** From now on the app may call by these. Resolves when the host listens, if there are any. */
  open: (calls: Calls) => Promise<void>;
}
