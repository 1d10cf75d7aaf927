// The HOST capability as a typed client. Every call carries the secret and has a deadline.

import type { Access, Role } from '../../sqlite/control/access.ts';
import type { Bindings } from '../bindings.ts';
import type { HostStats } from '../contract/admin.ts';
import type { Alert, AlertDelivery } from '../contract/alerts.ts';
import { type ErrorCode, errorCodes } from '../contract/errors.ts';
import type {
  DatabaseQuestion,
  DeployFact,
  DeployFacts,
  DescribedRelease,
  HostPreview,
  InstancesQuestion,
  KeptPlaces,
  KeysQuestion,
  ListedApp,
  Looked,
  Mail,
  ObjectQuestion,
  SecretChanges,
  StorageWrite,
  StorageWritten,
  UploadedVersion,
  WantedApp,
  WorkflowAction,
} from '../contract/host-calls.ts';
import type {
  AlertSettings,
  Applied,
  HostBlob,
  HostCall,
  HostCalls,
  HostInventory,
  HostObject,
  HostOverview,
  TelemetryAnswers,
  UploadedPart,
} from '../contract/host-routes.ts';
import type { Result } from '../contract/index.ts';
import type { GroupedError } from '../contract/telemetry.ts';
import { cutText } from '../contract/text.ts';
import { afterChange, Problem } from '../problem.ts';
import type { Part } from '../range.ts';

/** With this code the host refuses whatever takes room while its disk is short of it. */
const NO_ROOM: ErrorCode = 'insufficient_storage';
const CALL_DEADLINE_MS = 10_000;
/** Reaching a wanted state may mean a drain, or a start in its turn: so much more than the time of a wake. */
const APPLY_SLACK_MS = 30_000;
/** The host itself gives up on git's commands earlier; the contents of a file may take their time. */
const SOURCE_DEADLINE_MS = 600_000;
/** A whole object of 5 GB. What stalls is ended much earlier by the host. */
const OBJECT_DEADLINE_MS = 3_600_000;
/** The webhook itself has less. */
const TEST_ALERT_DEADLINE_MS = 15_000;
/** The mail server itself has less. */
const MAIL_DEADLINE_MS = 15_000;
const STREAMS = {
  logs: 'GET /apps/:id/telemetry/logs/stream',
  errors: 'GET /apps/:id/telemetry/errors/stream',
} as const;
/** A whole push or clone. What stalls is ended much earlier by the host. */
const GIT_DEADLINE_MS = 3_600_000;
/** A first snapshot reads and writes everything. */
const SNAPSHOT_DEADLINE_MS = 6 * 3_600_000;
/** Longest text taken from the host, in characters. */
const LOG_LIMIT = 8 * 1024 * 1024;

/** The host refused a state because it knows a newer one. */
export class StaleGeneration extends Error {}

/** A commit's description: the contents follow it. `bytes` is how long each is, null for none. */
interface CommitHead {
  message: string;
  author: { name: string; email: string };
  parent: string | null;
  files: { path: string; bytes: number | null; mode: string | null; delete: boolean; from: string | null }[];
}

type Query = Record<string, string | number | boolean | undefined>;

interface Options<Name extends HostCall> {
  body?: HostCalls[Name]['body'];
  /** In place of `body`. */
  bytes?: Blob | ReadableStream<Uint8Array>;
  /** Of the body. Default JSON. */
  contentType?: string;
  query?: Query;
  deadlineMs?: number;
  /** In place of a deadline for all of the answer. */
  signal?: AbortSignal;
  missing?: boolean;
  /** Codes with which the host may refuse, and its words are the caller's. */
  refusals?: readonly ErrorCode[];
}

/** A reading of storage has 10 s, and may wait for its turn. */
const READ_DEADLINE_MS = 60_000;
const READ_REFUSALS = [
  'storage_not_found',
  'invalid_input',
  'query_failed',
  'query_timeout',
  'answer_too_large',
  'storage_unreadable',
  'workflow_not_found',
  'workflow_instance_not_found',
] as const;

const WRITE_REFUSALS = ['storage_not_found', 'query_failed', 'app_unavailable'] as const;

const WORKFLOW_REFUSALS = [
  'workflow_not_found',
  'workflow_instance_not_found',
  'workflow_conflict',
  'invalid_input',
  'app_unavailable',
] as const;

const CRON_REFUSALS = ['cron_not_found', 'transition_conflict', 'app_unavailable'] as const;

/** What uploads have in common. */
const UPLOAD = {
  refusals: ['invalid_input', 'bad_request', 'body_too_large', 'rate_limited', 'app_not_found'],
  deadlineMs: SOURCE_DEADLINE_MS,
} as const;

/** Who uploads what: the account's id and the name of the script; the app, if there is one. */
interface Uploader {
  owner: string;
  app: string | undefined;
}

/** What reads of an app's source have in common. */
const SOURCE = { refusals: ['ref_not_found', 'path_not_found'], deadlineMs: SOURCE_DEADLINE_MS } as const;

/** What calls about objects in buckets have in common. */
const BUCKET = {
  refusals: [
    'storage_not_found',
    'transition_conflict',
    'quota_exceeded',
    'invalid_input',
    'bad_request',
    'request_timeout',
  ],
} as const;

interface ObjectPlace {
  bucket: string;
  key: string;
}

/** Talks to the host. Methods throw a `Problem` `host_unavailable` when it cannot be reached in time. */
export class HostClient {
  readonly #env: Bindings;

  constructor(env: Bindings) {
    this.#env = env;
  }

  /** The same host. `onChange` is called before each call that may change something. */
  watched(onChange: () => void): HostClient {
    const { HOST } = this.#env;
    const fetch: Fetcher['fetch'] = (input, init) => {
      if (init?.method !== 'GET') onChange();
      return HOST.fetch(input, init);
    };
    return new HostClient({ ...this.#env, HOST: { fetch } as Fetcher });
  }

  get #applyDeadlineMs(): number {
    return Number(this.#env.RUNNER_WAKE_TIMEOUT_S) * 1000 + APPLY_SLACK_MS;
  }

  /**
   * Sends the whole wanted state of an app; answers when it is reached or has failed.
   * @throws {StaleGeneration}
   */
  async apply(wanted: WantedApp): Promise<Applied> {
    const options = { body: wanted, deadlineMs: this.#applyDeadlineMs };
    return this.#json('PUT /apps/:id', [wanted.id], options);
  }

  /** One app as it is now; null when the host does not know it. */
  async app(id: string): Promise<ListedApp | null> {
    const response = await this.#call('GET /apps/:id', [id], { missing: true });
    return response.status === 404 ? null : response.json();
  }

  /**
   * Ends an app and moves its data to the trash.
   * @throws {StaleGeneration}
   */
  async delete(id: string, generation: number): Promise<void> {
    await this.#call('DELETE /apps/:id', [id], { query: { generation }, deadlineMs: this.#applyDeadlineMs });
  }

  async inventory(): Promise<HostInventory> {
    return this.#json('GET /apps', []);
  }

  /** The deploys of these that the host knows, as it has them. */
  async deploys(asked: { app_id: string; id: string }[]): Promise<DeployFacts> {
    return this.#json('POST /deploys', [], { body: asked });
  }

  /** The log of a deploy so far; null when the host has none. */
  async deployLog(appId: string, deployId: string): Promise<string | null> {
    const response = await this.#call('GET /apps/:id/deploys/:deploy/log', [appId, deployId], {
      missing: true,
    });
    return response.status === 404 ? null : cutText(await response.text(), LOG_LIMIT);
  }

  /**
   * Starts the release of an earlier deploy again, as a new deploy.
   * @throws {Problem} `deploy_not_found`, `release_unavailable`
   */
  async rollback(appId: string, deployId: string, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'release_unavailable'] as const;
    const body = { deploy_id: deployId, by };
    const options = { body, refusals };
    return this.#json('POST /apps/:id/rollback', [appId], options).catch(maybeDone);
  }

  /**
   * Builds and deploys the tip of main again, or the commit of an earlier deploy.
   * @throws {Problem} `deploy_not_found`, `ref_not_found`
   */
  async deployAgain(appId: string, deployId: string | null, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'ref_not_found'] as const;
    const options = { body: { deploy_id: deployId, by }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#json('POST /apps/:id/deploys', [appId], options).catch(maybeDone);
  }

  /**
   * Ends a deploy that waits or builds.
   * @param by who does, for people
   * @throws {Problem} `deploy_not_found`, `transition_conflict` when it has ended or serves already
   */
  async cancelDeploy(appId: string, deployId: string, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'transition_conflict'] as const;
    const words = [appId, deployId];
    return this.#json('POST /apps/:id/deploys/:deploy/cancel', words, { body: { by }, refusals }).catch(
      maybeDone,
    );
  }

  /** Entries of a directory; `sha` is the commit, null before the first push. */
  async sourceTree(
    appId: string,
    query: Query,
  ): Promise<{ sha: string | null; items: Result<'source.tree'>['items']; more: boolean }> {
    return this.#json('GET /apps/:id/source/tree', [appId], { ...SOURCE, query });
  }

  /** What is known of a file without its contents. */
  async sourceEntry(appId: string, query: Query): Promise<HostBlob> {
    return this.#json('GET /apps/:id/source/entry', [appId], { ...SOURCE, query });
  }

  /** A part of a file's contents, as a body to read or pass on. `x-cellar-binary` says `true` when it is no text. */
  async sourceBytes(appId: string, sha: string, part: Part): Promise<Response> {
    return this.#call('GET /apps/:id/source/blob/:sha', [appId, sha], { ...SOURCE, query: { ...part } });
  }

  async sourceDiff(appId: string, query: Query): Promise<Result<'source.diff'>> {
    return this.#json('GET /apps/:id/source/diff', [appId], { ...SOURCE, query });
  }

  /** @param contents of the files that have `bytes`, in their order */
  async sourceCommit(
    appId: string,
    head: CommitHead,
    contents: Uint8Array[],
  ): Promise<Result<'source.commit'>> {
    const bytes = new Blob([`${JSON.stringify(head)}\n`, ...contents]);
    const refusals = ['commit_conflict', 'path_not_found', 'invalid_input'] as const;
    const options = { bytes, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#json('POST /apps/:id/source/commit', [appId], options).catch(maybeDone);
  }

  /** Takes over a repository. @throws {Problem} `commit_conflict`, `import_failed`, `rate_limited` */
  async importSource(appId: string, url: string): Promise<Result<'source.import'>> {
    const refusals = ['commit_conflict', 'import_failed', 'rate_limited'] as const;
    const options = { body: { url }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#json('POST /apps/:id/source/import', [appId], options).catch(maybeDone);
  }

  /** Commits a template. @throws {Problem} `commit_conflict` */
  async startFromTemplate(
    appId: string,
    body: HostCalls['POST /apps/:id/source/template']['body'],
  ): Promise<Result<'source.template'>> {
    const options = { body, refusals: ['commit_conflict'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return this.#json('POST /apps/:id/source/template', [appId], options).catch(maybeDone);
  }

  /** All that an app keeps. */
  async storage(appId: string): Promise<Result<'storage.overview'>> {
    const [kept, buckets] = await Promise.all([
      this.#look<Omit<Result<'storage.overview'>, 'buckets'>>('GET /apps/:id/storage', appId),
      this.#json('GET /apps/:id/buckets', [appId]),
    ]);
    return { ...kept, buckets };
  }

  async database(appId: string, body: DatabaseQuestion): Promise<Looked<Result<'storage.d1.get'>>> {
    return this.#look('POST /apps/:id/storage/d1', appId, body);
  }

  /** A database as SQL. @throws {Problem} `answer_too_large` */
  async exportDatabase(appId: string, database: string): Promise<Result<'storage.d1.export'>> {
    return this.#look('POST /apps/:id/storage/export', appId, { database });
  }

  async objects(appId: string, body: ObjectQuestion): Promise<Looked<Result<'storage.do.get'>>> {
    return this.#look('POST /apps/:id/storage/do', appId, body);
  }

  async kvKeys(appId: string, body: KeysQuestion): Promise<Looked<Result<'storage.kv.list'>>> {
    return this.#look('POST /apps/:id/storage/kv', appId, body);
  }

  async kvValue(appId: string, body: KeysQuestion): Promise<Result<'storage.kv.get'>> {
    return this.#look('POST /apps/:id/storage/kv', appId, body);
  }

  /** A page of a bucket's objects. @throws {Problem} `storage_not_found` */
  async bucketList(appId: string, query: Query): Promise<HostCalls['GET /apps/:id/r2/list']['answer']> {
    return this.#json('GET /apps/:id/r2/list', [appId], { ...BUCKET, query });
  }

  /** @throws {Problem} `storage_not_found` */
  async bucketHead(appId: string, { bucket, key }: ObjectPlace): Promise<HostObject> {
    return this.#json('GET /apps/:id/r2/head', [appId], { ...BUCKET, query: { bucket, key } });
  }

  /** A part of an object, as a body to pass on. @throws {Problem} `transition_conflict` when it has another etag by now */
  async bucketBytes(appId: string, query: ObjectPlace & Part & { etag: string }): Promise<Response> {
    return this.#call('GET /apps/:id/r2/bytes', [appId], {
      ...BUCKET,
      query: { ...query },
      deadlineMs: OBJECT_DEADLINE_MS,
    });
  }

  /**
   * Puts an object.
   * @param bytes with a length that is known
   * @throws {Problem} `storage_not_found`, `quota_exceeded`, `invalid_input`, `request_timeout`
   */
  async bucketPut(
    appId: string,
    { bucket, key }: ObjectPlace,
    described: object,
    bytes: Blob | ReadableStream<Uint8Array>,
  ): Promise<HostObject> {
    const query = { bucket, key, described: JSON.stringify(described) };
    const options = { ...BUCKET, query, bytes, deadlineMs: OBJECT_DEADLINE_MS };
    return this.#json('PUT /apps/:id/r2/object', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found`, `quota_exceeded`, `invalid_input` */
  async bucketCreateUpload(
    appId: string,
    { bucket, key }: ObjectPlace,
    described: object,
  ): Promise<{ upload_id: string }> {
    const query = { bucket, key, described: JSON.stringify(described) };
    return this.#json('POST /apps/:id/r2/uploads', [appId], { ...BUCKET, query }).catch(maybeDone);
  }

  /** Puts a part of an upload. @param bytes with a length that is known @throws {Problem} as `bucketPut` */
  async bucketPutPart(
    appId: string,
    { bucket, key }: ObjectPlace,
    of: { upload: string; part: number },
    bytes: ReadableStream<Uint8Array>,
  ): Promise<UploadedPart> {
    const options = { ...BUCKET, query: { bucket, key, ...of }, bytes, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#json('PUT /apps/:id/r2/part', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found`, `invalid_input` */
  async bucketCompleteUpload(
    appId: string,
    { bucket, key }: ObjectPlace,
    upload: string,
    body: UploadedPart[],
  ): Promise<HostObject> {
    const options = { ...BUCKET, query: { bucket, key, upload }, body, deadlineMs: READ_DEADLINE_MS };
    return this.#json('POST /apps/:id/r2/complete', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found` */
  async bucketAbortUpload(appId: string, { bucket, key }: ObjectPlace, upload: string): Promise<void> {
    const options = { ...BUCKET, query: { bucket, key, upload } };
    await this.#call('DELETE /apps/:id/r2/upload', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found` */
  async bucketDelete(appId: string, { bucket, key }: ObjectPlace): Promise<void> {
    const options = { ...BUCKET, query: { bucket, key } };
    await this.#call('DELETE /apps/:id/r2/object', [appId], options).catch(maybeDone);
  }

  /** Has a process of the app write. @throws {Problem} with SQLite's own words, or why there is no process */
  async writeStorage(appId: string, body: StorageWrite): Promise<StorageWritten> {
    const options = { body, refusals: WRITE_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return this.#json('POST /apps/:id/storage/write', [appId], options).catch(maybeDone);
  }

  /** Has a process of the app run a file of SQL. @throws {Problem} as `writeStorage` */
  async importDatabase(appId: string, database: string, sql: string): Promise<Result<'storage.d1.import'>> {
    const given = { query: { database }, bytes: new Blob([sql]) };
    const options = { ...given, refusals: WRITE_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return this.#json('POST /apps/:id/storage/import', [appId], options).catch(maybeDone);
  }

  /** The crons of an app's live release. */
  async crons(appId: string): Promise<Result<'crons.list'>['items']> {
    return this.#json('GET /apps/:id/crons', [appId]);
  }

  /** Has a process of the app run a cron. @throws {Problem} when there is no such cron or process, or it runs already */
  async runCron(appId: string, cron: string): Promise<Result<'crons.run'>> {
    const options = { body: { cron }, refusals: CRON_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return this.#json('POST /apps/:id/crons/run', [appId], options).catch(maybeDone);
  }

  /** The Workflows of an app's live release. */
  async workflows(appId: string): Promise<Result<'workflows.list'>['items']> {
    return this.#look('GET /apps/:id/workflows', appId);
  }

  async workflowInstances(
    appId: string,
    body: InstancesQuestion,
  ): Promise<Looked<Result<'workflows.instances.list'>>> {
    return this.#look('POST /apps/:id/workflows/instances', appId, body);
  }

  async workflowInstance(
    appId: string,
    body: { workflow: string; instance: string },
  ): Promise<Result<'workflows.instances.get'>> {
    return this.#look('POST /apps/:id/workflows/instance', appId, body);
  }

  /** Has a process of the app make or change an instance. @throws {Problem} when there is none, or its status forbids it */
  async actOnWorkflow(
    appId: string,
    body: WorkflowAction,
  ): Promise<HostCalls['POST /apps/:id/workflows/act']['answer']> {
    const options = { body, refusals: WORKFLOW_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    const response = await this.#call('POST /apps/:id/workflows/act', [appId], options).catch(maybeDone);
    return response.status === 204 ? null : response.json();
  }

  /** An app's secrets, without their values. */
  async secrets(appId: string): Promise<HostCalls['GET /apps/:id/secrets']['answer']> {
    return this.#json('GET /apps/:id/secrets', [appId]);
  }

  /**
   * Sets and deletes secrets, and has the app start again with them where it runs.
   * @throws {Problem} `quota_exceeded`
   */
  async changeSecrets(
    appId: string,
    changes: SecretChanges,
  ): Promise<HostCalls['PATCH /apps/:id/secrets']['answer']> {
    const refusals = ['quota_exceeded'] as const;
    const options = { body: changes, refusals, deadlineMs: this.#applyDeadlineMs };
    return this.#json('PATCH /apps/:id/secrets', [appId], options).catch(maybeDone);
  }

  /** Why the host could not write something just now: its disk is full; null when it is not. */
  async diskFull(): Promise<string | null> {
    const { full } = await this.#json('GET /disk', []);
    return full && sentence(full);
  }

  /** An app's alerts, oldest first. */
  async alerts(appId: string): Promise<Alert[]> {
    return this.#json('GET /apps/:id/alerts', [appId]);
  }

  /** @throws {Problem} `quota_exceeded` */
  async addAlert(
    appId: string,
    body: HostCalls['POST /apps/:id/alerts']['body'],
  ): Promise<Alert & { secret: string }> {
    return this.#json('POST /apps/:id/alerts', [appId], { body, refusals: ['quota_exceeded'] });
  }

  /** @throws {Problem} `alert_not_found` */
  async changeAlert(appId: string, alertId: string, body: AlertSettings): Promise<Alert> {
    return this.#json('PUT /apps/:id/alerts/:alert', [appId, alertId], {
      body,
      refusals: ['alert_not_found'],
    });
  }

  /** @throws {Problem} `alert_not_found` */
  async deleteAlert(appId: string, alertId: string): Promise<void> {
    await this.#call('DELETE /apps/:id/alerts/:alert', [appId, alertId], { refusals: ['alert_not_found'] });
  }

  /** @throws {Problem} `alert_not_found`, `rate_limited` */
  async testAlert(appId: string, alertId: string): Promise<AlertDelivery> {
    const refusals = ['alert_not_found', 'rate_limited'] as const;
    const options = { refusals, deadlineMs: TEST_ALERT_DEADLINE_MS };
    return this.#json('POST /apps/:id/alerts/:alert/test', [appId, alertId], options);
  }

  /** What the host's telemetry says of an app, or of a preview of it. @throws {Problem} `error_not_found`, `preview_not_found` */
  async telemetry<Name extends keyof TelemetryAnswers>(
    name: Name,
    id: string,
    query?: Omit<TelemetryAnswers[Name]['params'], 'appId'> & { preview?: string | undefined },
  ): Promise<TelemetryAnswers[Name]['answer']> {
    const call: keyof HostCalls = `GET /apps/:id/telemetry/${name}`;
    const options = { query: query as Query, refusals: ['error_not_found', 'preview_not_found'] } as const;
    return this.#json(call, [id], options) as Promise<TelemetryAnswers[Name]['answer']>;
  }

  /** Begins a session of assets. @param body the list as Wrangler sends it @throws {Problem} `invalid_input` */
  async startAssets(
    from: Uploader,
    body: ReadableStream<Uint8Array>,
  ): Promise<HostCalls['POST /uploads/assets']['answer']> {
    return this.#json('POST /uploads/assets', [], { ...UPLOAD, query: { ...from }, bytes: body });
  }

  /** Passes assets on. @returns whether the session has all now. @throws {Problem} `invalid_input` */
  async keepAssets(
    session: string,
    body: ReadableStream<Uint8Array>,
    contentType: string,
  ): Promise<{ complete: boolean }> {
    return this.#json('POST /uploads/assets/:session', [session], { ...UPLOAD, bytes: body, contentType });
  }

  /** Passes a version on. @throws {Problem} `invalid_input` with what is wrong with it */
  async uploadVersion(
    from: Uploader & { author: string },
    body: ReadableStream<Uint8Array>,
    contentType: string,
  ): Promise<HostCalls['POST /uploads/versions']['answer']> {
    return this.#json('POST /uploads/versions', [], {
      ...UPLOAD,
      query: { ...from },
      bytes: body,
      contentType,
    });
  }

  /** The versions of an app that wait to be deployed, newest first. */
  async versions(appId: string): Promise<UploadedVersion[]> {
    return this.#json('GET /apps/:id/versions', [appId]);
  }

  /** Deploys a version, and answers when that has ended. @throws {Problem} `deploy_not_found` */
  async deployVersion(
    appId: string,
    id: string,
    body: HostCalls['POST /apps/:id/versions/:deploy']['body'],
  ): Promise<DeployFact> {
    const options = { body, refusals: ['deploy_not_found'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return this.#json('POST /apps/:id/versions/:deploy', [appId, id], options).catch(maybeDone);
  }

  /** Deploys a version to its preview, and answers when that has ended. @throws {Problem} `invalid_input` for its alias */
  async previewVersion(appId: string, id: string, owner: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'invalid_input'] as const;
    const options = { body: { owner }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#json('POST /apps/:id/versions/:deploy/preview', [appId, id], options).catch(maybeDone);
  }

  /** The previews of an app, newest first. */
  async previews(appId: string): Promise<HostPreview[]> {
    return this.#json('GET /apps/:id/previews', [appId]);
  }

  /** The log of a preview's newest deploy. @throws {Problem} `preview_not_found`, `deploy_not_found` */
  async previewLog(
    appId: string,
    name: string,
  ): Promise<HostCalls['GET /apps/:id/previews/:preview/log']['answer']> {
    const refusals = ['preview_not_found', 'deploy_not_found'] as const;
    return this.#json('GET /apps/:id/previews/:preview/log', [appId, name], { refusals });
  }

  /** Has a preview's release deployed to its app. @throws {Problem} `preview_not_found`, `release_unavailable` */
  async promotePreview(appId: string, name: string, author: string): Promise<DeployFact> {
    const refusals = ['preview_not_found', 'release_unavailable'] as const;
    const options = { body: { author }, refusals };
    return this.#json('POST /apps/:id/previews/:preview/promote', [appId, name], options).catch(maybeDone);
  }

  /** Removes a preview. @throws {Problem} `preview_not_found` */
  async deletePreview(appId: string, name: string): Promise<void> {
    const options = { refusals: ['preview_not_found'], deadlineMs: READ_DEADLINE_MS } as const;
    await this.#call('DELETE /apps/:id/previews/:preview', [appId, name], options);
  }

  /**
   * Has the live release called by other triggers.
   * @returns the deploy when it has ended; null when nothing had to change
   * @throws {Problem} `release_unavailable` when nothing is deployed
   */
  async setTriggers(
    appId: string,
    body: HostCalls['PUT /apps/:id/triggers']['body'],
  ): Promise<DeployFact | null> {
    const options = { body, refusals: ['release_unavailable'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return (await this.#json('PUT /apps/:id/triggers', [appId], options).catch(maybeDone)).deploy;
  }

  /** What each of these apps keeps. */
  async places(appIds: string[]): Promise<KeptPlaces[]> {
    return this.#json('POST /places', [], { body: appIds });
  }

  /** The live release, or that of a deploy or version; null when there is none. */
  async release(appId: string, deploy?: string): Promise<DescribedRelease | null> {
    return (await this.#json('GET /apps/:id/release', [appId], { query: { deploy } })).release;
  }

  /** Takes a snapshot of everything. */
  async snapshot(): Promise<Result<'admin.snapshot'>> {
    const refusals = ['snapshot_unusable'] as const;
    return this.#json('POST /snapshots', [], { refusals, deadlineMs: SNAPSHOT_DEADLINE_MS });
  }

  /** All snapshots, the newest first. */
  async snapshots(): Promise<Result<'snapshots.list'>['items']> {
    return (await this.#json('GET /snapshots', [], { deadlineMs: GIT_DEADLINE_MS })).items;
  }

  /** @throws {Problem} `app_not_found`, `snapshot_not_found`, `snapshot_unusable` */
  async restore(body: HostCalls['POST /snapshots/restore']['body']): Promise<Result<'admin.restore'>> {
    const refusals = ['app_not_found', 'snapshot_not_found', 'snapshot_unusable'] as const;
    const options = { body, refusals, deadlineMs: SNAPSHOT_DEADLINE_MS };
    return this.#json('POST /snapshots/restore', [], options).catch(maybeDone);
  }

  /** @throws {Problem} `error_not_found` */
  async setErrorStatus(
    appId: string,
    body: HostCalls['PUT /apps/:id/telemetry/errors/status']['body'],
  ): Promise<GroupedError> {
    const options = { body, refusals: ['error_not_found'] } as const;
    return this.#json('PUT /apps/:id/telemetry/errors/status', [appId], options);
  }

  /**
   * The log of an app, or its errors, as they come, as server-sent events. It lasts until either side ends it.
   * @throws {Problem} `rate_limited` when too many listen
   */
  async follow(kind: 'logs' | 'errors', appId: string, query: Query): Promise<ReadableStream<Uint8Array>> {
    const head = new AbortController();
    const timer = setTimeout(() => head.abort(new Error('no answer in time')), CALL_DEADLINE_MS);
    try {
      const refusals = ['rate_limited', 'preview_not_found'] as const;
      const options = { query, refusals, signal: head.signal };
      const response = await this.#call(STREAMS[kind], [appId], options);
      return response.body!;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The host's figures and every app's, as Prometheus reads them. */
  async prometheus(): Promise<string> {
    return (await this.#call('GET /metrics', [])).text();
  }

  /** A file of the viewer of the API's reference, compressed with gzip. */
  async viewerFile(file: string): Promise<Response> {
    return this.#call('GET /viewer', [], { query: { file } });
  }

  /** What these apps do, all at once. */
  async overview(appIds: string[]): Promise<HostOverview> {
    return this.#json('POST /overview', [], { body: { app_ids: appIds } });
  }

  /** The host's own figures. */
  async stats(): Promise<HostStats> {
    return this.#json('GET /stats', []);
  }

  /** The settings that the host was started with. */
  async settings(): Promise<Result<'admin.settings'>> {
    return this.#json('GET /settings', []);
  }

  /** Where an app's hostname leads. @throws {Problem} `domain_not_found`, `rate_limited` */
  async checkDomain(appId: string, hostname: string): Promise<Result<'domains.check'>> {
    const refusals = ['domain_not_found', 'rate_limited'] as const;
    return this.#json('GET /apps/:id/domain', [appId], { query: { hostname }, refusals });
  }

  /** Sends an e-mail. @returns why it was not sent; null when it was */
  async mail(body: Mail): Promise<string | null> {
    return (await this.#json('POST /mail', [], { body, deadlineMs: MAIL_DEADLINE_MS })).problem;
  }

  /** Asks the outside control UI, through the host, what a key may do: its status and body as they came. */
  async askControlUi(question: { slug: string; key: string; need: Role }): Promise<Response> {
    return this.#send(
      'POST /ui/git-auth',
      [],
      '',
      JSON.stringify(question),
      AbortSignal.timeout(CALL_DEADLINE_MS),
      {
        'content-type': 'application/json',
      },
    );
  }

  /** Passes a git request on, with `body`; neither that nor the answer's is read here. */
  async git(
    request: Request,
    to: {
      appId: string;
      service: string;
      search: string;
      slug: string;
      role: NonNullable<Access['role']>;
      body: ReadableStream<Uint8Array> | null;
    },
  ): Promise<Response> {
    const headers: Record<string, string> = { 'x-cellar-role': to.role, 'x-cellar-slug': to.slug };
    for (const name of ['content-type', 'content-encoding', 'git-protocol', 'accept']) {
      const value = request.headers.get(name);
      if (value !== null) headers[name] = value;
    }
    const name = request.method === 'GET' ? 'GET /git/:id/:refs' : 'POST /git/:id/:service';
    const words = [to.appId, to.service];
    const response = await this.#send(
      name,
      words,
      to.search,
      to.body,
      AbortSignal.timeout(GIT_DEADLINE_MS),
      headers,
    );
    if (response.status === errorCodes[NO_ROOM].status)
      throw new Problem(NO_ROOM, detailOf(await response.text()));
    return response;
  }

  /** A reading of what an app keeps. @throws {Problem} with the host's own words */
  async #look<Answer>(
    name: Extract<HostCall, `${string}/storage${string}` | `${string}/workflows${string}`>,
    appId: string,
    body?: object,
  ): Promise<Answer> {
    const options = { refusals: READ_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    const bytes = body && new Blob([JSON.stringify(body)]);
    return (await this.#call(name, [appId], { ...options, ...(bytes && { bytes }) })).json();
  }

  async #json<Name extends HostCall>(
    name: Name,
    words: string[],
    options?: Options<Name>,
  ): Promise<HostCalls[Name]['answer']> {
    return (await this.#call(name, words, options)).json();
  }

  /** @param words what stands in the path, in its order */
  async #call<Name extends HostCall>(
    name: Name,
    words: string[],
    options: Options<Name> = {},
  ): Promise<Response> {
    const given = Object.entries(options.query ?? {}).filter(([, value]) => value !== undefined);
    const search =
      given.length === 0 ? '' : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
    const body = options.body === undefined ? (options.bytes ?? null) : JSON.stringify(options.body);
    const signal = options.signal ?? AbortSignal.timeout(options.deadlineMs ?? CALL_DEADLINE_MS);
    const headers = { 'content-type': options.contentType ?? 'application/json' };
    const response = await this.#send(name, words, search, body, signal, headers);
    if (response.ok || (options.missing && response.status === 404)) return response;
    const text = (await response.text()).slice(0, 1000);
    const refusal = [NO_ROOM, ...(options.refusals ?? [])].find((code) => code === codeOf(text));
    if (refusal) throw new Problem(refusal, detailOf(text));
    if (response.status === 409 && codeOf(text) === 'stale_generation') throw new StaleGeneration(text);
    console.error(`the host answered ${name} (${words}) with ${response.status}: ${text}`);
    throw new Problem(
      'host_unavailable',
      `The host could not carry this out (it answered ${response.status}).`,
    );
  }

  async #send(
    name: HostCall,
    words: string[],
    search: string,
    body: BodyInit | null,
    signal: AbortSignal,
    headers: Record<string, string>,
  ): Promise<Response> {
    const [method, pattern] = name.split(' ') as [string, string];
    const left = [...words];
    const path = pattern.replace(/:\w+/g, () => left.shift()!);
    try {
      return await this.#env.HOST.fetch(`http://host${path}${search}`, {
        method,
        body,
        headers: { ...headers, authorization: `Bearer ${this.#env.HOST_SECRET}` },
        signal,
        redirect: 'manual',
      });
    } catch (error) {
      console.error(`the host did not answer ${method} ${path}: ${(error as Error).message}`);
      throw new Problem('host_unavailable');
    }
  }
}

/** A host that did not answer, or answered with a fault, may have done what it was asked for. */
function maybeDone(error: unknown): never {
  throw error instanceof Problem && error.status >= 500 ? afterChange(error) : error;
}

function codeOf(text: string): unknown {
  return problemOf(text).code;
}

/** The host's words, as a sentence. */
function detailOf(text: string): string {
  return sentence(String(problemOf(text).detail));
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function problemOf(text: string): { code?: unknown; detail?: unknown } {
  try {
    return JSON.parse(text) as { code?: unknown; detail?: unknown };
  } catch {
    return {};
  }
}
