// What the host's thread and the telemetry's thread say to each other.
import type { HostStats } from '../../handlers/contract/admin.ts';
import type { AppFigures } from '../../handlers/contract/apps/apps.ts';
import type { CronRun } from '../../handlers/contract/apps/crons.ts';
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { TelemetryAnswers } from '../../handlers/contract/host/host-routes.ts';
import type { GroupedError } from '../../handlers/contract/telemetry/grouped-errors.ts';
import type { Level, Source } from './logs/log-lines.ts';
import type { HandedRequests } from './traces/request-lines.ts';

/** What an app's process has used since the sample before. */
export interface Usage {
  /** Processor time, in ms. */
  cpuMs?: number;
  /** Private memory, in bytes. */
  memoryBytes?: number;
  /** Starts of a process for an app that rested. */
  wakes?: number;
}

/** A line of the host's own for an app's log. */
export interface Said {
  /** In ms since 1970. */
  at: number;
  level: Level;
  source: Source;
  text: string;
  /** The deploy that it is about. */
  deployId: string | null;
}

/** A release of an app did not start, or its process ended by itself. */
export interface Failure {
  /** In ms since 1970. */
  at: number;
  deployId: string | null;
  mechanism: 'load' | 'crash';
  reason: string;
}

/** A piece of what an app's process has printed, as it came out of the pipe. */
export interface OutputPiece {
  appId: string;
  deployId: string;
  /** When it came, in ms since 1970. */
  at: number;
  /** Which pipe of which process: no other one has this number. */
  pipe: number;
  stream: 'stdout' | 'stderr';
  bytes: Uint8Array;
  /** How many ends of lines were in what was dropped before it; null when nothing was. */
  dropped: number | null;
  /** Whether the pipe has no more. */
  isLast: boolean;
}

/** What was handed over since the batch before. */
export interface Batch {
  seq: number;
  requests: HandedRequests;
  usage: (Required<Usage> & { appId: string; at: number })[];
  output: OutputPiece[];
  said: (Said & { appId: string })[];
  failures: (Failure & { appId: string })[];
}

/** What is handed over piece by piece, and may have to be dropped. */
export type Kind = 'requests' | 'output' | 'said' | 'failures';

/** What the thread can be asked, by name. All that it answers can be copied. */
export type Asks = TelemetryAnswers & {
  'errors/status': {
    params: { appId: string; fingerprint: string; status: GroupedError['status'] };
    answer: GroupedError;
  };
  /** Figures of several apps, by id. */
  'metrics/overview': {
    params: { appIds: string[] };
    answer: Record<string, Omit<AppFigures, 'open_errors'>>;
  };
  /** How many open groups several apps have, by id. */
  'errors/open': { params: { appIds: string[] }; answer: Record<string, number> };
  /** The last run of each cron of an app, by its expression. */
  'crons/last': { params: { appId: string }; answer: Record<string, CronRun> };
  /** Figures of the thread itself, for whoever runs this Cellar. */
  stats: { params: Record<string, never>; answer: ThreadStats };
  /** All figures as Prometheus reads them, in UTF-8. */
  prometheus: { params: { stats: HostStats }; answer: Uint8Array<ArrayBuffer> };
};
export type AskName = keyof Asks;

export interface ThreadStats {
  /** Bytes of each database with its WAL, by name. */
  files: Record<string, number>;
}

/** What can be followed. Each part of the thread says what its items are. */
export type FollowKind = 'logs' | 'errors' | 'requests';

/** Server-sent events on their way to somebody who follows an app. */
export interface StreamPiece {
  text: string;
  /** How many they are. */
  events: number;
  /** The id of the last of them; null when none has one. */
  lastId: number | null;
  /** Whether the stream ends with it. */
  isLast: boolean;
}

export type ToThread =
  | { type: 'batch'; batch: Batch }
  | { type: 'ask'; id: number; name: AskName; params: unknown }
  | { type: 'follow'; id: number; appId: string; kind: FollowKind; params: unknown }
  | { type: 'unfollow'; id: number }
  | { type: 'forget'; appId: string }
  | { type: 'names'; names: [appId: string, slug: string][] }
  /** Of all other apps nothing is to be kept. */
  | { type: 'keep'; appIds: string[] }
  | { type: 'close' };

/** An open group of an app's errors that has one more. */
export interface OpenGroup {
  appId: string;
  fingerprint: string;
  kind: string;
  message: string;
  /** In the source; null when that is not known. */
  place: string | null;
  count: number;
  /** Whether it was resolved before. */
  regressed: boolean;
  /** The newest deploy that it was seen in. */
  release: string | null;
}

export type FromThread =
  /** What came up to this batch is on the disk, or will be written again until it is. */
  | { type: 'kept'; seq: number }
  | { type: 'answer'; id: number; answer: unknown }
  | { type: 'refusal'; id: number; code: ErrorCode | null; message: string }
  | { type: 'push'; id: number; items: unknown[] }
  | { type: 'errors'; groups: OpenGroup[] }
  /** What the thread has dropped since its start, by what it was. */
  | { type: 'dropped'; dropped: Record<string, number> }
  | { type: 'trouble'; message: string; error: string }
  | { type: 'closed' };

/** Where telemetry is sent to by OTLP/HTTP. */
export interface OtlpOptions {
  /** `/v1/traces` and the like come behind it. */
  endpoint: string;
  headers: Record<string, string>;
}

/** What the thread is started with. */
export interface ThreadOptions {
  /** Directory of the databases. */
  directory: string;
  retentionDays: number;
  /** `null`: nothing is sent. */
  otlp: OtlpOptions | null;
  /** Directory of all releases: `<app id>/<deploy id>` in it. */
  releases: string;
  /** `RUNNER_FLEET_LOG`. */
  fleetLog: string;
}
