// What crosses the HOST binding and comes back through `POST /internal/host-events`. Types only: the host imports
// them too.
import type { LogLine } from '../telemetry/logs.ts';

/** The settings of an app's builds. `null`: what the build finds by itself. Neither folder has `..` in it or a slash before it. */
export interface BuildSettings {
  /** Where in the repository the project is. */
  root_directory: string | null;
  /** These run in the shell, in that folder. */
  install_command: string | null;
  build_command: string | null;
  /** Of the static files, from the root directory. */
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
  /** The account that owns it. Left out by states that an older control plane sent. */
  owner?: string;
  /** Raised on every transition. One counter for all apps, so that an older D1 shows. */
  generation: number;
  desired_state: 'running' | 'stopped';
  asleep: boolean;
  /** Custom hostnames, lower case, besides `<slug>.<base domain>`. */
  hostnames: string[];
  /** Variables for install and build. */
  env: Record<string, string>;
  /** Left out by states that an older control plane sent. */
  builds?: BuildSettings;
  /** Requests per minute at the edge, per visitor and in all: null is the platform's default, 0 is off. */
  limits: { clientRpm: number | null; appRpm: number | null };
  /** Whether a push to another branch than main makes a preview. Left out by states that an older control plane sent. */
  previews?: PreviewSettings;
}

/** Whether a push to another branch makes a preview, and what a new one keeps at its beginning: nothing, or what the app keeps. */
export interface PreviewSettings {
  branches: boolean;
  storage: 'empty' | 'copy';
}

/** A preview, as the host has it. Times are ISO 8601. */
export interface HostPreview {
  /** What its address begins with. */
  name: string;
  /** The same, and what else it answers at: the name of the uploaded version that it shows. */
  names: string[];
  /** The branch that it shows; `null` for an upload. */
  branch: string | null;
  /** Whether a release of it answers. */
  serves: boolean;
  /** Its newest deploy; `null` before there is one. */
  deploy: Omit<DeployFact, 'app_id' | 'can_roll_back'> | null;
  created_at: string;
  expires_at: string;
}

/** What the host's process of an app is doing. `idle`: nothing to run, or hibernated. */
export type ProcessState = 'none' | 'starting' | 'running' | 'idle' | 'stopped' | 'crashed';

/** The host's facts about one app. */
export interface ObservedApp {
  id: string;
  generation: number;
  process_state: ProcessState;
  live_deploy_id: string | null;
  /** When the live release went live, ISO 8601. */
  deployed_at: string | null;
  last_error: string | null;
}

/** When something was seen: after fact `seq` of the host's outbox. What D1 has from a later fact is newer. */
export interface AsOf {
  outbox: string;
  seq: number;
}

/** An app in `GET /apps`, with what says whether it may be put to sleep. */
export interface ListedApp extends ObservedApp {
  /** The last minute with a request, ISO 8601; null when there was none. Health probes do not count. */
  last_activity_at: string | null;
  /** Requests and upgraded connections that are open. */
  open_streams: number;
}

/** A secret of an app, without its value. Times are ISO 8601. */
export interface SecretRecord {
  name: string;
  created_at: string;
  updated_at: string;
}

/** Values of secrets by name; `null` deletes one. */
export type SecretChanges = Record<string, string | null>;

/** `live` while it serves, `replaced` when another deploy does. */
export type DeployStatus =
  | 'queued'
  | 'building'
  | 'live'
  | 'replaced'
  | 'failed'
  | 'superseded'
  | 'cancelled';
export type DeployTrigger = 'push' | 'rollback' | 'commit' | 'redeploy' | 'import' | 'upload' | 'promote';

/** What a tail shows of a line besides its text. All of it is the app's word. */
export interface TailedPart {
  /** The values that were printed, as JSON of a list; left out for a single text. */
  values?: string;
  /** The exception that the line is about. `isUncaught`: it ended the handler. */
  exception?: { name: string; message: string; hasStack: boolean; isUncaught: boolean };
}

/** A line of the log as a tail gets it. */
export type TailedLine = LogLine & { tail?: TailedPart };

/** A request of an app that has ended, as a tail shows it. */
export interface TailedRequest {
  /** When it began, in ms since 1970. */
  at: number;
  trace_id: string;
  method: string;
  host: string;
  /** Without its query. */
  path: string;
  /** 499 when the client left before an answer began. */
  status: number;
  /** The deploy that answered; null for none. */
  release: string | null;
  user_agent: string;
  /** Why the gateway answered by itself; null when it did not. */
  refused: string | null;
}

/** One step of a deploy, in the order run. */
export interface DeployStep {
  name: 'checkout' | 'install' | 'build' | 'bundle' | 'release' | 'cache' | 'start';
  status: 'running' | 'done' | 'failed' | 'skipped';
  duration_ms: number | null;
}

/** What a deploy serves, as Wrangler knows it. Deploys that build nothing serve the version of an earlier one. */
export interface DeployVersion {
  id: string;
  /** As `wrangler deploy --tag` names it; empty for none. */
  tag: string;
  message: string;
  created_at: string;
}

/** A deploy as the host knows it. Every change of it is told whole. */
export interface DeployFact {
  id: string;
  app_id: string;
  sha: string;
  ref: string;
  message: string;
  author: string;
  /** Who asked for a rollback or a deploy again, for people. */
  requested_by?: string;
  /** Left out where the deploy has built it: it has the deploy's id and message. */
  version?: DeployVersion;
  /** What the author has to know about the release; left out when there is nothing. */
  warnings?: string[];
  trigger: DeployTrigger;
  status: DeployStatus;
  /** Whether its release is kept. */
  can_roll_back: boolean;
  steps: DeployStep[];
  error: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

/** The deploys that the host was asked for. A deploy that it does not know is left out. */
export interface DeployFacts {
  as_of: AsOf;
  items: DeployFact[];
}

/** Lines that a deploy's log has got. */
export interface LinesFact {
  app_id: string;
  deploy_id: string;
  lines: string[];
}

/** A fact of the host, told through its outbox: in order for each app, and applied once by `seq`. */
export type HostEvent = { seq: number; at: string } & (
  | { type: 'deploy'; deploy: DeployFact }
  | { type: 'lines'; lines: LinesFact }
  | { type: 'app'; app: ObservedApp }
);

/** `POST /internal/host-events`. `outbox` names the host's database: its `seq` starts again only with a new name. */
export interface HostEvents {
  outbox: string;
  events: HostEvent[];
}
