// The messages between the host's thread and the telemetry thread.

import type { HostStats } from '../../handlers/contract/admin.ts';
import type { AppFigures } from '../../handlers/contract/apps/apps.ts';
import type { CronRun } from '../../handlers/contract/apps/crons.ts';
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AppReport } from '../../handlers/contract/host/host-calls.ts';
import type { TelemetryAnswers } from '../../handlers/contract/host/host-routes.ts';
import type { GroupedError } from '../../handlers/contract/telemetry/grouped-errors.ts';
import type { S3Place } from '../bucket/place.ts';
import type { KnownHosts } from './copies/source.ts';
import type { Level, Source } from './logs/log-lines.ts';
import type { EncodedRequests } from './traces/request-lines.ts';

/** Resource use of an app's processes since the previous report. */
export interface Usage {
  /** CPU time, in ms. */
  cpuMs?: number;
  /** Private memory as last read, in bytes. */
  memoryBytes?: number;
  /** Number of processes that serve at the moment. */
  processes?: number;
  /** Number of times that requests started the sleeping or hibernating app, since the previous report. */
  wakes?: number;
}

/** A line that the host itself writes into an app's log. */
export interface Said {
  /** In ms since 1970. */
  at: number;
  level: Level;
  source: Source;
  text: string;
  /** The deploy that the line is about; null for none. */
  deployId: string | null;
}

/** A failed start of a release, or an unexpected end of its process. */
export interface Failure {
  /** In ms since 1970. */
  at: number;
  deployId: string | null;
  mechanism: 'load' | 'crash';
  reason: string;
}

/** A raw chunk of the output of an app's process. */
export interface OutputPiece {
  appId: string;
  deployId: string;
  /** When it arrived, in ms since 1970. */
  at: number;
  /** A unique number of the process's pipe. */
  pipe: number;
  stream: 'stdout' | 'stderr';
  bytes: Uint8Array;
  /** Number of line ends in the output dropped before this chunk; null when nothing was dropped. */
  dropped: number | null;
  /** Whether this is the pipe's last chunk. */
  isLast: boolean;
}

/** Items since the last batch. */
export interface Batch {
  seq: number;
  requests: EncodedRequests;
  usage: (Required<Usage> & { appId: string; at: number })[];
  output: OutputPiece[];
  said: (Said & { appId: string })[];
  failures: (Failure & { appId: string })[];
}

/** Kinds of items that are taken one by one, and dropped over a limit. */
export type Kind = 'requests' | 'output' | 'said' | 'failures';

/** The thread's queries, by name. All answers can be structured-cloned. */
export type Asks = TelemetryAnswers & {
  'errors/status': {
    params: { appId: string; fingerprint: string; status: GroupedError['status'] };
    answer: GroupedError;
  };
  /** Figures of several apps, by app id. */
  'metrics/overview': {
    params: { appIds: string[] };
    answer: Record<string, Omit<AppFigures, 'open_errors' | 'processes'>>;
  };
  /** Number of open error groups of several apps, by app id. */
  'errors/open': { params: { appIds: string[] }; answer: Record<string, number> };
  /** The last run of each cron of an app, by the cron's expression. */
  'crons/last': { params: { appId: string }; answer: Record<string, CronRun> };
  /** Figures of the thread itself, for the operator. */
  stats: { params: Record<string, never>; answer: ThreadStats };
  /** All figures in Prometheus' text format, as UTF-8. */
  prometheus: { params: { stats: HostStats }; answer: Uint8Array<ArrayBuffer> };
};
export type AskName = keyof Asks;

export interface ThreadStats {
  /** Size of each database with its WAL in bytes, by name. */
  files: Record<string, number>;
}

/** What can be followed. Each part of the thread defines its items. */
export type FollowKind = 'logs' | 'errors' | 'requests';

/** Server-sent events for a client that follows an app. */
export interface StreamPiece {
  text: string;
  /** Number of events, skipped ones included. */
  events: number;
  /** Id of the newest event sent so far; null when it has no id, or when the text is not an event. */
  lastId: number | null;
  /** Whether the stream ends after this text. */
  isLast: boolean;
}

export type ToThread =
  | { type: 'batch'; batch: Batch }
  | { type: 'ask'; id: number; name: AskName; params: unknown }
  | { type: 'follow'; id: number; appId: string; kind: FollowKind; params: unknown }
  | { type: 'unfollow'; id: number }
  | { type: 'forget'; appId: string }
  | { type: 'names'; names: [appId: string, slug: string][] }
  /** Remove the data of all apps that are not listed. */
  | { type: 'keep'; appIds: string[] }
  /** Start the copies in the bucket. `hosts`: null for the only host. */
  | { type: 'copy'; hosts: KnownHosts | null }
  | { type: 'close' };

/** An open error group with a new error. */
export interface OpenGroup {
  appId: string;
  fingerprint: string;
  kind: string;
  message: string;
  /** The place in the source; null when unknown. */
  place: string | null;
  count: number;
  /** Whether a newer release has reopened the group after it was resolved. */
  regressed: boolean;
  /** The newest deploy with this error; null when unknown. */
  release: string | null;
}

export type FromThread =
  /** The thread has tried to write all batches up to this one. It retries failed writes itself. */
  | { type: 'kept'; seq: number }
  | { type: 'answer'; id: number; answer: unknown }
  | { type: 'refusal'; id: number; code: ErrorCode | null; message: string }
  | { type: 'push'; id: number; items: unknown[] }
  | { type: 'errors'; groups: OpenGroup[] }
  /** Apps' reports through their binding to `cellar`, and the number of dropped reports by app. */
  | { type: 'reports'; reports: AppReport[]; dropped: [appId: string, count: number][] }
  /** Number of items that the thread has dropped since its start, by kind. */
  | { type: 'dropped'; dropped: Record<string, number> }
  | { type: 'trouble'; message: string; error: string }
  | { type: 'closed' };

/** Where telemetry is exported by OTLP/HTTP. */
export interface OtlpOptions {
  /** Paths such as `/v1/traces` are appended. */
  endpoint: string;
  headers: Record<string, string>;
}

export interface ThreadOptions {
  /** Directory of the databases. */
  directory: string;
  retentionDays: number;
  /** `null`: no export. */
  otlp: OtlpOptions | null;
  /** The bucket with copies; `null`: none. */
  bucket: S3Place | null;
  /** The id of this host, as one of several; `null` for the only host. */
  host: string | null;
  /** Directory of all releases, each in `<app id>/<deploy id>`. */
  releases: string;
  /** Directory of all uploaded versions; default: that of the releases. */
  versions?: string;
  /** Value of `RUNNER_FLEET_LOG`. */
  fleetLog: string;
}
