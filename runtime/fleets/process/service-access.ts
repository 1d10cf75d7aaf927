// An app's access to its owner's other apps.
import type { DispatchBinding, ServiceBinding, StoreSecretBinding } from '../../../bundler/release.ts';

/** A binding to another app. */
export interface OutsideBinding extends ServiceBinding {
  /** The class of Durable Objects that it leads to; undefined for a service. */
  className?: string;
}

/** Calls that an app's process may make to other apps, each list in the order of its numbers. */
export interface Calls {
  /** Bindings to other apps. */
  services: OutsideBinding[];
  /** Queues that other apps consume. */
  queues: string[];
  /** Bindings to dispatch namespaces. */
  namespaces: DispatchBinding[];
  /** Secrets of the owner's Secrets Stores. */
  secrets: StoreSecretBinding[];
  /** Slugs of the apps with tail Workers. */
  tails: string[];
}

export interface ServiceAccess {
  /** Whether what this app fetches goes to an outbound Worker. Once true, it stays so. */
  hasOutbound: boolean;
  /** Path of the socket where the host takes this app's calls. */
  socket: string;
  /** Allows these calls from now on. Resolves when the host listens, if there are any. */
  open: (calls: Calls) => Promise<void>;
}
