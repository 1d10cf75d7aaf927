// An app's access to other apps of its owner, and to the secrets of the owner's Secrets Stores.
import type { DispatchBinding, ServiceBinding, StoreSecretBinding } from '../../../bundler/release.ts';

/** A binding to another app. */
export interface OutsideBinding extends ServiceBinding {
  /** The class of Durable Objects that the binding leads to; undefined for a service binding. */
  className?: string;
}

/** Calls that an app's process may make through the host. The process names a call by its list and its index there. */
export interface Calls {
  /** Bindings to other apps. */
  services: OutsideBinding[];
  /** Queues that other apps consume, or may consume for dead letters. */
  queues: string[];
  namespaces: DispatchBinding[];
  secrets: StoreSecretBinding[];
  /** Slugs of the apps with tail Workers. */
  tails: string[];
}

export interface ServiceAccess {
  /** Whether the app's outgoing requests go to an outbound Worker. Never changes from true to false. */
  hasOutbound: boolean;
  /** Path of the socket where the host accepts this app's calls. */
  socket: string;
  /** Allows `calls` from now on. Resolves when the host listens at the socket, or at once if `calls` is empty. */
  open: (calls: Calls) => Promise<void>;
}
