// The options of `Apps`: settings, other parts of the host, and callbacks.
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Bucket } from '../../bucket/bucket.ts';
import type { Backend } from '../../edge/upstream/backend.ts';
import type { FleetUsage } from '../../fleets/life/fleet.ts';
import type { Level } from '../../log.ts';
import type { FleetsOptions } from '../fleet-of-app.ts';

/** What `Apps` needs in a Cellar of several hosts. */
export interface AppHosts {
  /** The id of this host. */
  self: string;
  /** Ends the deploys of an app that leaves, and resolves when none runs. The app's next host makes them again. */
  endDeploys: (id: string) => Promise<void>;
  /**
   * Called when an app or a preview leaves for the host `to`. Returns where its requests go from now on.
   * @param hostname a host name of the app
   */
  left: (id: string, to: string, hostname: string) => Backend;
  /** Called when nothing of an app that has left runs here any more. */
  ended: (id: string) => void;
}

export interface AppsOptions extends FleetsOptions {
  store: HostStore;
  /** Null without a bucket. */
  bucket: Bucket | null;
  /** Left out in a Cellar of one host. */
  hosts?: AppHosts | null;
  baseDomain: string;
  /** Writes a line into an app's log. */
  say: (id: string, level: Level, words: string) => void;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
  /** Called with an app's usage since the previous call, about once a second while the app has a process. */
  onUsage: (id: string, usage: FleetUsage) => void;
  /** Called with an app's slug at boot, and whenever a wanted state of the app is applied. */
  onNamed: (id: string, slug: string) => void;
  /** Called when an app or a preview has come from another host, or was undeleted, before it gets requests. */
  onRestored: (id: string) => void;
  /** Called when an app was deleted and no longer receives requests. */
  onDeleted: (id: string) => void;
}
