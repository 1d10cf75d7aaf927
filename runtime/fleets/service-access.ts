// An app's way to the apps that it has bindings to.
import type { ServiceBinding } from '../../bundler/release.ts';

export interface ServiceAccess {
  /** Path of the socket at which the host takes this app's calls. */
  socket: string;
  /** From now on these are the bindings that the app may call by. Resolves when the host listens, if there are any. */
  open: (calls: ServiceBinding[]) => Promise<void>;
}
