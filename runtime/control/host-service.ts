// The host's side of the HOST binding: answers calls of the handlers. It carries out their decisions and makes none.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ObservedApp } from '../../handlers/contract/host/host-calls.ts';
import { HOST_CALL_BYTES, WANTED_BYTES } from '../../handlers/contract/sizes.ts';
import type { App } from '../apps/app.ts';
import type { Secrets } from '../apps/secrets.ts';
import type { Imports } from '../builds/source/import.ts';
import { shownSettings } from '../config.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { DomainChecks } from '../edge/domain-checks.ts';
import type { BranchChanges } from '../git/branch-changes.ts';
import { type RefUpdate, serveGit } from '../git/smart-http.ts';
import { GitTurns } from '../git/turns.ts';
import type { CallsElsewhere } from '../hosts/calls-elsewhere.ts';
import { reason } from '../log.ts';
import type { Mailer } from '../mail/mail.ts';
import type { Moves } from '../move/moves.ts';
import { QueueFull } from '../queues/fair-queue.ts';
import { noSuchApp, Refusal, requireRoom } from '../refusal.ts';
import { clientLeft } from '../sockets/client-left.ts';
import {
  type ConnectionCall,
  type ConnectionOptions,
  connectionRoutes,
} from '../sources/connection-routes.ts';
import { createDeploy } from '../sources/create-deploy.ts';
import type { StorageQueries } from '../storage/storage-queries.ts';
import {
  type Call,
  compile,
  DISK_FULL,
  type HostRoutes,
  readBody,
  readJson,
  refuse,
  sendJson,
} from './host-call.ts';
import { hostOverview, hostStats, type StatsOptions } from './host-stats.ts';
import { type AlertCall, type AlertOptions, alertRoutes } from './routes/alert-routes.ts';
import { type CopyCall, type CopyRouteOptions, copyRoutes } from './routes/copy-routes.ts';
import { type CronCall, cronRoutes } from './routes/cron-routes.ts';
import { type HomeCall, homeRoutes } from './routes/home-routes.ts';
import type { LiveStreams } from './routes/live-streams.ts';
import { type PreviewCall, type PreviewRouteOptions, previewRoutes } from './routes/preview-routes.ts';
import { type SecretCall, secretRoutes } from './routes/secret-routes.ts';
import { type SnapshotCall, type SnapshotRouteOptions, snapshotRoutes } from './routes/snapshot-routes.ts';
import { type SourceCall, sourceRoutes } from './routes/source-routes.ts';
import { type BucketCall, type BucketOptions, bucketRoutes } from './routes/storage/bucket-routes.ts';
import { type StorageCall, storageRoutes } from './routes/storage/storage-routes.ts';
import { type VectorCall, vectorRoutes } from './routes/storage/vector-routes.ts';
import { type TelemetryCall, telemetryRoutes } from './routes/telemetry-routes.ts';
import { type UploadCall, type UploadOptions, uploadRoutes } from './routes/upload-routes.ts';
import { viewerFile } from './routes/viewer.ts';
import { type WorkflowCall, workflowRoutes } from './routes/workflow-routes.ts';

const FLUSH_MS = 1_000;
const CONTROL_UI_DEADLINE_MS = 8_000;

const gitTurns = new GitTurns();

export interface HostServiceOptions
  extends AlertOptions,
    SnapshotRouteOptions,
    BucketOptions,
    StatsOptions,
    CopyRouteOptions,
    ConnectionOptions,
    PreviewRouteOptions,
    UploadOptions {
  secret: string;
  /** Null in a Cellar of one host. */
  elsewhere: CallsElsewhere | null;
  paths: Layout;
  streams: LiveStreams;
  secrets: Secrets;
  storageQueries: StorageQueries;
  moves: Moves;
  domains: DomainChecks;
  imports: Imports;
  mailer: Mailer;
  /** Records running pushes and commits. */
  changes: BranchChanges;
  /** An external control UI, if configured, which authorizes the use of git. */
  controlUi: { url: string; token: string };
  /** Deploys a push, writes the log to `output`, and ends `output`. */
  onPush: (appId: string, updates: RefUpdate[], output: Duplex) => void;
}

/**
 * Returns the request handler of the HOST binding. Every request must carry the secret. A response is sent only when all
 * changes that it reports are durable.
 */
export function hostService(
  options: HostServiceOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  const routes = compile({
    ...routesOf(options),
    ...sourceRoutes(options),
    ...connectionRoutes(options),
    ...telemetryRoutes(options),
    ...alertRoutes(options),
    ...secretRoutes(options),
    ...snapshotRoutes(options),
    ...storageRoutes(options),
    ...copyRoutes(options),
    ...cronRoutes(options),
    ...workflowRoutes(options),
    ...bucketRoutes(options),
    ...vectorRoutes(options),
    ...uploadRoutes(options),
    ...previewRoutes(options),
    ...homeRoutes(options),
  });
  const expected = digest(`Bearer ${options.secret}`);

  return (request, response) => {
    const [path = '', search = ''] = (request.url ?? '').split('?', 2);
    const found = routes.find(({ method, pattern }) => method === request.method && pattern.test(path));
    const authorized = timingSafeEqual(digest(request.headers.authorization ?? ''), expected);
    const answer = async () => {
      if (!authorized) throw new Refusal(401, 'unauthorized', 'the HOST secret is missing or wrong');
      if (!found) throw new Refusal(404, 'route_not_found', `there is no route ${request.method} ${path}`);
      const words = path.match(found.pattern)!.slice(1);
      const query = new URLSearchParams(search);
      const home = query.get('home');
      query.delete('home');
      const named = found.namesApp ? words[0]! : null;
      const host = (await options.elsewhere?.hostOf(request, named, home)) ?? null;
      if (host !== null) {
        await options.elsewhere!.pass(host, request, response);
        return;
      }
      const value = await found.answer({ request, response, words, query });
      // Routes that write their response themselves need no sync here: they only read, or the process that writes, such as
      // git or workerd, acknowledges only durable writes.
      if (value === undefined) return;
      await options.store.synced();
      if (words[0] !== undefined) await storeRecord(options, words[0]);
      if (value === null) response.writeHead(204).end();
      else sendJson(response, value);
    };
    answer().catch((error: unknown) => refuse(response, error));
  };
}

/** Resolves when the bucket has what a call has changed of an app, so that another machine would know it. */
async function storeRecord({ bucket }: HostServiceOptions, appId: string): Promise<void> {
  await bucket?.records.stored(appId).catch((error: unknown) => {
    throw new Refusal(
      503,
      'host_unavailable',
      `the app was changed on this host, but its record could not be written to the bucket; Cellar tries again: ${reason(error)}`,
    );
  });
}

function routesOf(
  options: HostServiceOptions,
): Omit<
  HostRoutes,
  | SourceCall
  | ConnectionCall
  | TelemetryCall
  | AlertCall
  | SecretCall
  | SnapshotCall
  | StorageCall
  | BucketCall
  | VectorCall
  | UploadCall
  | CopyCall
  | CronCall
  | PreviewCall
  | HomeCall
  | WorkflowCall
> {
  const { store, paths, disk, apps, queue, requests, changes, outbox, controlUi, onPush, alerts } = options;
  const applied = (app: ObservedApp) => ({ app, as_of: store.outbox.position() });
  return {
    'PUT /apps/:id': async ({ request, words }) => {
      const wanted = await readJson<'PUT /apps/:id'>(request, WANTED_BYTES);
      if (wanted.id !== words[0]) throw new Refusal(400, 'invalid_input', 'id differs from the path');
      const reached = await apps.apply(wanted);
      return applied(apps.observe(wanted.id) ?? reached);
    },
    'POST /apps/:id/start': async ({ words }) => applied(await apps.start(words[0]!)),
    'POST /apps/:id/move': async ({ request, words }) => {
      const { to, dry_run } = await readJson<'POST /apps/:id/move'>(request);
      const id = words[0]!;
      if (dry_run) return { plan: await options.moves.plan(id, to), applied: null };
      const plan = await options.moves.move(id, to);
      return { plan, applied: plan.from === to ? null : applied(apps.observe(id)!) };
    },
    'POST /apps/:id/sleep': async ({ words }) => applied(await apps.sleep(words[0]!)),
    'DELETE /apps/:id': async ({ words, query }) => {
      await apps.deletions.delete(words[0]!, Number(query.get('generation')));
      alerts.deleteOfApp(words[0]!);
      await options.sources.disconnect(words[0]!);
      await queue.forget(words[0]!);
      await options.previews.forget(words[0]!);
      await options.uploads.forget(words[0]!);
      return null;
    },
    'GET /apps': () => ({
      as_of: store.outbox.position(),
      highest_generation: apps.highestGeneration,
      items: apps.observeAll(),
    }),
    'GET /apps/:id/deploys/:deploy/log': ({ words }) => {
      const text = store.deploys.log(words[0]!, words[1]!);
      return text === undefined ? null : { text };
    },
    'POST /deploys': async ({ request }) => {
      const asked = await readJson<'POST /deploys'>(request);
      const items = asked.flatMap(({ app_id, id }) => store.deploys.find(app_id, id) ?? []);
      return { as_of: store.outbox.position(), items };
    },
    'POST /apps/:id/rollback': async ({ request, words }) => {
      const { deploy_id, by } = await readJson<'POST /apps/:id/rollback'>(request);
      const { fact } = requests.rollback(words[0]!, deploy_id, by);
      // So that the next list of deploys contains this one.
      await outbox.flushed(FLUSH_MS);
      return fact;
    },
    'POST /apps/:id/deploys': async ({ request, response, words }) => {
      requireRoom(disk);
      const asked = await readJson<'POST /apps/:id/deploys'>(request);
      const fact = await createDeploy(options, words[0]!, asked, clientLeft(response));
      await outbox.flushed(FLUSH_MS);
      return fact;
    },
    'POST /apps/:id/deploys/:deploy/cancel': async ({ request, words }) => {
      const { by } = await readJson<'POST /apps/:id/deploys/:deploy/cancel'>(request);
      const fact = await queue.cancel(words[0]!, words[1]!, by);
      await outbox.flushed(FLUSH_MS);
      return fact;
    },
    'POST /overview': async ({ request }) => {
      const { app_ids } = await readJson<'POST /overview'>(request);
      return hostOverview(options, app_ids);
    },
    'GET /stats': () => hostStats(options),
    'GET /metrics': async ({ response }) => {
      const figures = await options.telemetry.ask('prometheus', { stats: await hostStats(options) });
      response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(figures);
    },
    'GET /viewer': async ({ response, query }) => {
      const file = await viewerFile(query.get('file') ?? '');
      if (file === null) throw new Refusal(404, 'route_not_found', 'the viewer has no such file');
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(file);
    },
    'GET /settings': () => ({ items: shownSettings(process.env) }),
    'GET /apps/:id/domain': async ({ words, query }) => {
      const app = apps.get(words[0]!);
      if (!app) throw noSuchApp();
      return options.domains
        .lookUp(query.get('hostname') ?? '', app.wanted.owner ?? app.id)
        .catch((error: unknown) => {
          if (error instanceof QueueFull) throw new Refusal(429, 'rate_limited', error.message);
          throw error;
        });
    },
    'GET /disk': async () => ({ full: (await disk.isFull()) ? DISK_FULL : null }),
    'POST /mail': async ({ request }) => {
      const { mail, owner } = await readJson<'POST /mail'>(request);
      return options.mailer.send(mail, owner);
    },
    'POST /ui/git-auth': async ({ request, response }) => {
      const question = await readBody(request, HOST_CALL_BYTES);
      const answer = await fetch(new URL('/internal/git-auth', controlUi.url), {
        method: 'POST',
        headers: { authorization: `Bearer ${controlUi.token}`, 'content-type': 'application/json' },
        body: question.toString('utf8'),
        redirect: 'error',
        signal: AbortSignal.timeout(CONTROL_UI_DEADLINE_MS),
      });
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    },
    'GET /git/:id/:refs': git,
    'POST /git/:id/:service': git,
  };

  async function git(call: Call): Promise<void> {
    const [appId, service] = call.words as [string, string];
    const app = apps.get(appId);
    if (!app) throw noSuchApp();
    const isRead = service !== 'git-receive-pack' && call.query.get('service') !== 'git-receive-pack';
    await (isRead ? serve(call, app) : app.changes.during(() => serve(call, app)));
  }

  async function serve({ request, response, words, query }: Call, app: Readonly<App>): Promise<void> {
    const [appId, service] = words as [string, string];
    const stored = app.code?.repository;
    const role = request.headers['x-cellar-role'];
    if (role !== 'view' && role !== 'push' && role !== 'admin') {
      throw new Refusal(400, 'invalid_input', 'x-cellar-role is missing or unknown');
    }
    // A push starts by reading the refs. Git shows its user the reason of a refusal only here.
    if (query.get('service') === 'git-receive-pack') {
      requireRoom(disk);
      queue.expect();
    }
    const isPush = service === 'git-receive-pack';
    const asked = {
      repository: paths.repository(appId),
      hooks: stored ? paths.askingHooks : paths.hooks,
      ...(stored && { onPrepared: (updates: RefUpdate[]) => stored.store(updates) }),
      service,
      floorMb: disk.floorMb,
      query: query.toString(),
    };
    const answer = (taken: () => void) => {
      const push = (updates: RefUpdate[], output: Duplex) => {
        // git has stored the push. The log of the deploy follows, which may take long, so this frees the turn of git.
        taken();
        onPush(appId, updates, output);
      };
      return serveGit({ ...asked, role, onPush: push }, request, response);
    };
    // Refuses a push that the bucket would not store, before the client sends it.
    if (stored && query.get('service') === 'git-receive-pack') await stored.during(async () => {});
    const owner = app.wanted.owner ?? appId;
    const inTurn = () => gitTurns.serve(owner, response, answer);
    if (isPush) await changes.during(appId, stored ? stored.during(inTurn) : inTurn());
    else await (stored ? stored.reading(inTurn) : inTurn());
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
