// Types of the calls between a host and the control plane, when several hosts serve the same apps. Types only: the host imports
// them too.

/** Version of the calls between hosts. Hosts may differ by one, so that they can be upgraded one after another. */
export type HostsProtocol = number;

/** `draining`: its apps move to other hosts, and it gets no new ones. `silent`: it has not reported for too long. */
export type HostState = 'active' | 'draining' | 'silent';

/** How busy a host is. */
export interface HostLoad {
  memory_free_bytes: number;
  memory_total_bytes: number;
  /** Processor use of the last minute: 0 is idle, 1 is all processors. */
  cpu: number;
  disk_free_bytes: number;
  disk_total_bytes: number;
  /** Number of apps whose home is this host. */
  apps: number;
  /** Number of these apps that have a process. */
  running: number;
}

/** The body of `POST /internal/hosts/report`: each host sends one every two seconds. */
export interface HostReport {
  protocol: HostsProtocol;
  /** The host's id, which is the id of its data directory. */
  id: string;
  /** The host name of the machine, for people. */
  name: string;
  /** Address and port at which the other hosts reach this host. */
  address: string;
  /** Version of Cellar. */
  version: string;
  /** ISO 8601. */
  started_at: string;
  load: HostLoad;
  /** How far the host's clock is ahead of the bucket's clock, in ms; null before this is known. */
  clock_ahead_ms: number | null;
  /** Hosts that do not answer the reporting host, and for how long, in ms. */
  unanswered: { id: string; ms: number }[];
  /** Apps whose requests wait at this host because their homes are lost, with those homes. */
  awaited: { app: string; home: string }[];
  /** Revision of the newest `AppRoute` that the host has; 0 when it has no routes. */
  revision: number;
  /** Whether the host was the only host of this Cellar before. Then it becomes the home of all apps without a home. */
  adopts: boolean;
  /** Whether the host is shutting down. Then its apps move to other hosts before the answer. */
  leaves?: true;
}

/** A host, as others see it. */
export interface KnownHost {
  id: string;
  name: string;
  address: string;
  version: string;
  state: HostState;
  /** ISO 8601; null while it reports. An older control plane leaves it out. */
  silent_since?: string | null;
}

/** The data with which each host finds an app's home. */
export interface AppRoute {
  id: string;
  slug: string;
  owner: string;
  /** Custom hostnames, besides `<slug>.<base domain>`. */
  hostnames: string[];
  /** E-mail addresses; `*@domain` stands for all addresses of a domain. An older control plane leaves the field out. */
  mail?: string[];
  /** TCP ports. An older control plane leaves the field out. */
  tcp?: number[];
  limits: { clientRpm: number | null; appRpm: number | null };
  storage: 'local' | 'bucket';
  /** The id of the host that runs it. */
  home: string;
  generation: number;
}

/** The answer to a report. */
export interface HostReportAnswer {
  hosts: KnownHost[];
  /** Revision of the newest route. The next report carries it. */
  revision: number;
  /** True: `routes` has every app. False: it has only those that changed since the revision of the report. */
  whole: boolean;
  routes: AppRoute[];
  /** Ids of apps that were deleted since the revision of the report. */
  deleted: string[];
}
