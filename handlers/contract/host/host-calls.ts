// Types of the calls over the HOST binding and of `POST /internal/host-events`. Types only: the host imports them too.
import type { LogLine } from '../telemetry/logs.ts';

/**
 * The settings of an app's builds. `null`: the build detects the value; for `release_command`, no command runs. No folder
 * contains `..` or starts with a slash.
 */
export interface BuildSettings {
  /** The folder of the project in the repository. */
  root_directory: string | null;
  /** Shell command, run in the root directory. */
  install_command: string | null;
  /** Shell command, run in the root directory. */
  build_command: string | null;
  /** Shell command that runs before a new release of the app is live. An older control plane does not send it. */
  release_command?: string | null;
  /** Folder of the static files, relative to the root directory. */
  output_directory: string | null;
}

/** An e-mail to one person, in plain text. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** The whole wanted state of one app. Every transition sends all of it; the host refuses an older `generation`. */
export interface WantedApp {
  id: string;
  slug: string;
  /** The id of the account that owns the app. An older control plane does not send it. */
  owner?: string;
  /** Raised by each transition. All apps share one counter, so that the host detects when D1 was restored to an older state. */
  generation: number;
  desired_state: 'running' | 'stopped';
  /** Custom hostnames, lower case, besides `<slug>.<base domain>`. */
  hostnames: string[];
  /** The app's e-mail addresses; `*@domain` stands for all addresses of a domain. A missing field means no addresses. */
  mail?: string[];
  /** The app's TCP ports. A missing field means no ports. */
  tcp?: number[];
  /** Variables for install and build. */
  env: Record<string, string>;
  /** JSON values that override the Worker's variables. An older control plane does not send it. */
  vars?: Record<string, unknown>;
  /** Build settings. An older control plane does not send them. */
  builds?: BuildSettings;
  /** Which pushes to the app's repository in Cellar are deployed. Missing from an older control plane, which means `main`. */
  deploy_on?: 'main' | 'tags' | 'manual';
  /** Rate limits at the edge in requests per minute, per visitor and in total: null is the platform's default, 0 is off. */
  limits: { clientRpm: number | null; appRpm: number | null };
  /** Settings of previews. An older control plane does not send them. */
  previews?: PreviewSettings;
  /** Where the app keeps its data. Missing in states from an older control plane, which means `local`. */
  storage?: 'local' | 'bucket';
  /**
   * How many processes the app runs: only one for `local` data. Missing in states from an older control plane, which means 1.
   */
  replicas?: number;
  /** Set while visitors get a maintenance page: its HTML, or null for Cellar's own. */
  maintenance?: { html: string | null };
  /** The id of the host that runs it. Left out in a Cellar of one host. */
  home?: string;
  /** The generation of the app's last undeletion. The host ignores deletions of older generations. */
  undeleted?: number;
}

/** `branches`: whether pushes to other branches make previews. `storage`: whether new storage starts empty or as a copy. */
export interface PreviewSettings {
  branches: boolean;
  storage: 'empty' | 'copy';
  /** JSON values that override the variables of previews. An older control plane does not send it. */
  vars?: Record<string, unknown>;
}

/** A preview on the host. Times are ISO 8601. */
export interface HostPreview {
  /** First part of its address. */
  name: string;
  /** `name` and the other names at which the preview answers, such as the name of its uploaded version. */
  names: string[];
  /** Its branch; `null` for an upload. */
  branch: string | null;
  /** Whether one of its releases is live. */
  serves: boolean;
  /** Its newest deploy; `null` before there is one. */
  deploy: Omit<DeployFact, 'app_id' | 'can_roll_back'> | null;
  created_at: string;
  expires_at: string;
}

/** Two versions that share the requests of an app: the live one, then the second one. */
export interface HostSplit {
  id: string;
  author: string;
  message: string;
  /** ISO 8601. */
  created_at: string;
  versions: [SplitVersion, SplitVersion];
}

/** A version with its percentage of the app's requests. */
export type SplitVersion = DeployVersion & { percentage: number };

/** State of an app's process on the host. `idle`: nothing to run, or hibernated. */
export type ProcessState = 'none' | 'starting' | 'running' | 'idle' | 'stopped' | 'crashed';

/** The state of one app, as its host reports it. */
export interface ObservedApp {
  id: string;
  generation: number;
  process_state: ProcessState;
  live_deploy_id: string | null;
  /** When the live release went live, ISO 8601. */
  deployed_at: string | null;
  last_error: string | null;
  /** When the app fell asleep, ISO 8601; null while it is awake. */
  asleep_since: string | null;
  /** When the app woke last, ISO 8601; null when the host does not know the time. */
  woke_at: string | null;
  /** Where the app keeps its data. Left out by an older host. */
  storage?: 'local' | 'bucket';
}

/**
 * A position in the host's outbox: after the fact `seq`. The outbox is the host's queue of facts for the control plane, and a
 * fact is a change of an app or a deploy. Data in D1 that comes from a later fact is newer.
 */
export interface AsOf {
  outbox: string;
  seq: number;
}

/** A report that an app's Worker sends through its binding to `cellar`. */
export interface AppReport {
  app_id: string;
  /** ISO 8601. */
  at: string;
  kind: 'log' | 'identify' | 'insight';
  /** A JSON object as text, exactly as the app sent it. It is not validated yet. */
  input: string;
}

/** Reports that were refused, with the reason for the app's log. */
export interface AppReportsAnswer {
  refused: { app_id: string; text: string }[];
}

/** A secret of an app, without its value. Times are ISO 8601. */
export interface SecretRecord {
  name: string;
  created_at: string;
  updated_at: string;
}

/** Values of secrets by name; `null` deletes one. */
export type SecretChanges = Record<string, string | null>;

/** `live`: serves now. `replaced`: another deploy serves now. */
export type DeployStatus =
  | 'queued'
  | 'building'
  | 'live'
  | 'replaced'
  | 'failed'
  | 'superseded'
  | 'cancelled';
export type DeployTrigger = 'push' | 'rollback' | 'commit' | 'redeploy' | 'import' | 'upload' | 'promote';

/** Parts of a line that only a tail shows. All of it comes from the app and is untrusted. */
export interface TailedPart {
  /** The printed values as a JSON list; left out for a single string. */
  values?: string;
  /** The exception of the line. `isUncaught`: it ended the handler. */
  exception?: { name: string; message: string; hasStack: boolean; isUncaught: boolean };
}

/** A log line in a tail. */
export type TailedLine = LogLine & { tail?: TailedPart };

/** A finished request in a tail. */
export interface TailedRequest {
  /** When it began, in ms since 1970. */
  at: number;
  trace_id: string;
  method: string;
  host: string;
  /** Without its query. */
  path: string;
  /** 499 when the client disconnected before the response began. */
  status: number;
  /** The deploy whose release answered; null when no release answered. */
  release: string | null;
  user_agent: string;
  /** Why the gateway answered without the app; null when the app answered. */
  refused: string | null;
}

/** One step of a deploy. Steps are in the order of execution. */
export interface DeployStep {
  name:
    | 'checkout'
    | 'install'
    | 'build'
    | 'bundle'
    | 'release'
    | 'cache'
    | 'store'
    | 'release_command'
    | 'start';
  status: 'running' | 'done' | 'failed' | 'skipped';
  duration_ms: number | null;
}

/** The version that a deploy serves, as in Wrangler. Deploys without a build serve the version of an earlier deploy. */
export interface DeployVersion {
  id: string;
  /** The tag that `wrangler deploy --tag` set; empty without a tag. */
  tag: string;
  message: string;
  created_at: string;
}

/** A deploy on the host. Every change is sent as the whole record. */
export interface DeployFact {
  id: string;
  app_id: string;
  sha: string;
  ref: string;
  message: string;
  author: string;
  /** Who asked for a rollback or a redeploy, in readable form. */
  requested_by?: string;
  /** Left out when the deploy built the version itself: then the version has the deploy's id and message. */
  version?: DeployVersion;
  /** Warnings about the release for the author; left out when there are none. */
  warnings?: string[];
  trigger: DeployTrigger;
  status: DeployStatus;
  /** Whether the release of the deploy is still stored. */
  can_roll_back: boolean;
  steps: DeployStep[];
  error: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

/** The requested deploys. Deploys that the host does not know are left out. */
export interface DeployFacts {
  as_of: AsOf;
  items: DeployFact[];
}

/** New lines of a deploy's log. */
export interface LinesFact {
  app_id: string;
  deploy_id: string;
  lines: string[];
}

/**
 * A fact that the host delivers through its outbox. The facts of one app arrive in order. The number `seq` makes sure that the
 * control plane applies each fact only once.
 */
export type HostEvent = { seq: number; at: string } & (
  | { type: 'deploy'; deploy: DeployFact }
  | { type: 'lines'; lines: LinesFact }
  | { type: 'app'; app: ObservedApp }
);

/** Body of `POST /internal/host-events`. `outbox` identifies the host's database. Only a new database starts `seq` again. */
export interface HostEvents {
  outbox: string;
  events: HostEvent[];
}
