// The telemetry thread: takes batches, passes them to each part, writes about every second, and answers queries.
import { mkdirSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { copiesOf } from './copies/source.ts';
import { Errors } from './errors/errors.ts';
import { SourceStacks } from './errors/source-stacks.ts';
import { Logs } from './logs/logs.ts';
import { ReportIntake } from './logs/report-intake.ts';
import { Breakdowns } from './metrics/breakdowns.ts';
import { CronRuns } from './metrics/cron-runs.ts';
import { Datapoints } from './metrics/datapoints.ts';
import { Metrics } from './metrics/metrics.ts';
import { Totals } from './metrics/totals.ts';
import { AskRefusal, type Part, type Taken } from './part.ts';
import type { AskName, Batch, FromThread, ThreadOptions, ThreadStats, ToThread } from './protocol.ts';
import { Store } from './store/store.ts';
import { Calls } from './traces/calls.ts';
import { RequestFollowers } from './traces/request-followers.ts';
import { readRequests } from './traces/request-lines.ts';
import { Requests } from './traces/requests.ts';
import { Spans } from './traces/spans.ts';

/** Time between two writes to the disk, in ms. A crash loses the items since the last write, and the host's next batch. */
const FLUSH_EVERY_MS = 1_000;
/** Pause between two batches of removals while more is left, in ms. */
const PRUNE_NEXT_MS = 100;
/** Pause between two batches of removals when nothing is left, in ms. */
const PRUNE_AGAIN_MS = 10_000;

const options = workerData as ThreadOptions;
const port = parentPort!;

mkdirSync(options.directory, { recursive: true, mode: 0o700 });
const store = new Store(options.directory);
/** Slugs of apps, by id. */
const names = new Map<string, string>();
const slugOf = (appId: string) => names.get(appId) ?? appId;
// OpenTelemetry's packages take 20 MB, so they are loaded only when needed.
const otlp = options.otlp === null ? null : new (await import('./otlp/otlp.ts')).Otlp(options.otlp, slugOf);
const stacks = new SourceStacks(options.releases, options.versions);
const cronRuns = new CronRuns(store);
const datapoints = new Datapoints(store, options);
const requests = new Requests(store);
const spans = new Spans(store, options);
const calls = new Calls(store, requests, spans);
const reports = new ReportIntake((reports, dropped) => say({ type: 'reports', reports, dropped }));
const logs = new Logs(
  store,
  { ...options, stacks, onKept: (appId, record) => otlp?.log(appId, record) },
  {
    onError: (report) => errors.report(report),
    onRun: (...values) => cronRuns.report(...values),
    onPoint: (...values) => datapoints.report(...values),
    onCalls: (...values) => calls.report(...values),
    onReport: (...values) => reports.report(...values),
  },
);
const errors = new Errors(store, { ...options, stacks }, logs.answers.logs!, (groups) =>
  say({ type: 'errors', groups }),
);
const metrics = new Metrics(store, options);
const copies = await openCopies();
const parts: Part[] = [
  // `copies` comes first, because it must see the rows of a deleted app before the other parts remove them.
  ...(copies === null ? [] : [copies]),
  new Totals(names),
  metrics,
  new Breakdowns(store, options),
  spans,
  requests,
  calls,
  new RequestFollowers(),
  logs,
  errors,
  cronRuns,
  datapoints,
  reports,
  ...(otlp === null ? [] : [otlp]),
];
/** Functions that stop following, by id. */
const following = new Map<number, () => void>();
/** Apps whose data must be removed. */
const forgotten = new Set<string>();
let takenSeq = 0;
let keptSeq = 0;
/** Whether a part failed to write in the last flush. */
let unwritten = false;
/** Number of dropped items that was last reported to the host. */
let reportedDropped = 0;

const flushing = setInterval(() => {
  flush();
  reportDropped();
}, FLUSH_EVERY_MS);
let pruning = setTimeout(prune, PRUNE_AGAIN_MS);

port.on('message', (message: ToThread) => {
  if (message.type === 'batch') take(message.batch);
  else if (message.type === 'ask') void answer(message.id, message.name, message.params);
  else if (message.type === 'follow') follow(message);
  else if (message.type === 'unfollow') {
    following.get(message.id)?.();
    following.delete(message.id);
  } else if (message.type === 'forget') {
    forgotten.add(message.appId);
    names.delete(message.appId);
    pruneSoon();
  } else if (message.type === 'keep') forgetAllBut(new Set(message.appIds));
  else if (message.type === 'names') {
    for (const [appId, slug] of message.names) names.set(appId, slug);
  } else if (message.type === 'copy') copies?.start(message.hosts);
  else void close();
});
// Saves the compiled code now, because the host and this thread may be killed.
flushCompileCache();

async function openCopies() {
  if (options.bucket === null) return null;
  const { Copies } = await import('./copies/copies.ts');
  const root = copiesOf(options.host);
  return new Copies({
    place: options.bucket,
    root,
    sources: [errors.copies(root), ...metrics.copies(root)],
    onTrouble: (message, error) =>
      say({ type: 'trouble', message: `copies of errors and metrics: ${message}`, error }),
  });
}

function take(batch: Batch): void {
  takenSeq = batch.seq;
  const taken: Taken = { ...batch, requests: readRequests(batch.requests) };
  for (const part of parts)
    attempt(part, 'a batch of telemetry could not be processed', () => part.take?.(taken));
}

function forgetAllBut(known: Set<string>): void {
  for (const part of parts) {
    attempt(part, 'telemetry of deleted apps could not be found', () => {
      for (const appId of part.apps?.() ?? []) if (!known.has(appId)) forgotten.add(appId);
    });
  }
  pruneSoon();
}

function flush(): void {
  if (takenSeq === keptSeq && !unwritten) return;
  unwritten = false;
  for (const part of parts) {
    const isWritten = attempt(part, 'new telemetry could not be written; Cellar tries again', () =>
      part.flush?.(),
    );
    if (!isWritten) unwritten = true;
  }
  keptSeq = takenSeq;
  say({ type: 'kept', seq: keptSeq });
}

function prune(): void {
  let more = false;
  for (const part of parts) {
    attempt(part, 'old telemetry could not be removed', () => {
      if (part.prune?.(Date.now())) more = true;
    });
  }
  for (const appId of forgotten) {
    let left = false;
    for (const part of parts) {
      attempt(part, 'the telemetry of a deleted app could not be removed', () => {
        if (part.forget(appId)) left = true;
      });
    }
    if (left) more = true;
    else forgotten.delete(appId);
  }
  attempt(store, 'unused disk space of telemetry could not be released', () => store.giveBack());
  pruning = setTimeout(prune, more ? PRUNE_NEXT_MS : PRUNE_AGAIN_MS);
}

function pruneSoon(): void {
  clearTimeout(pruning);
  pruning = setTimeout(prune, PRUNE_NEXT_MS);
}

async function answer(id: number, name: AskName, params: unknown): Promise<void> {
  try {
    const found = name === 'stats' ? stats : parts.map(({ answers }) => answers[name]).find(Boolean);
    const answer = await (found as (params: unknown) => unknown)(params);
    say({ type: 'answer', id, answer }, answer instanceof Uint8Array ? [answer.buffer as ArrayBuffer] : []);
  } catch (error) {
    const code = error instanceof AskRefusal ? error.code : null;
    say({ type: 'refusal', id, code, message: (error as Error).message });
  }
}

function stats(): ThreadStats {
  reportDropped();
  return { files: store.sizes() };
}

/** Reports the dropped items to the host if their number has changed. */
function reportDropped(): void {
  const dropped: Record<string, number> = Object.assign({}, ...parts.map((part) => part.dropped));
  const all = Object.values(dropped).reduce((sum, count) => sum + count, 0);
  if (all === reportedDropped) return;
  reportedDropped = all;
  say({ type: 'dropped', dropped });
}

function follow({ id, appId, kind, params }: Extract<ToThread, { type: 'follow' }>): void {
  for (const part of parts) {
    attempt(part, 'a live stream could not be started', () => {
      const end = part.follow?.(appId, kind, params, (items) => say({ type: 'push', id, items }));
      if (end) following.set(id, end);
    });
  }
}

async function close(): Promise<void> {
  clearInterval(flushing);
  clearTimeout(pruning);
  flush();
  await Promise.all(parts.map((part) => part.close?.()));
  reportDropped();
  store.close();
  say({ type: 'closed' });
  port.close();
}

function attempt({ name }: { name: string }, message: string, work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    say({ type: 'trouble', message: `${name}: ${message}`, error: (error as Error).message });
    return false;
  }
}

function say(message: FromThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}
