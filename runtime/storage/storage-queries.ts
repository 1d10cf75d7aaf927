// Queries about an app's storage: translates the owner's names to files.
import { join } from 'node:path';
import type { Workflow } from '../../bundler/release.ts';
import type {
  DatabaseQuestion,
  ExportQuestion,
  InstancesQuestion,
  KeysQuestion,
  ObjectQuestion,
} from '../../handlers/contract/host/host-storage.ts';
import type { Result } from '../../handlers/contract/index.ts';
import { INSTANCE_STATUSES } from '../../handlers/contract/storage/workflows.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { ObjectList } from '../bucket/app-folder.ts';
import { readRelease } from '../builds/release/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { workflowKey } from '../fleets/config/workflows.ts';
import type { AppUsers } from '../isolation/users.ts';
import { reason } from '../log.ts';
import { loadNeeded, type Needed } from './loading.ts';
import { emptyNames } from './names.ts';
import { objectId } from './object-id.ts';
import { find, objectFile, type Places, placesOf, type Stored } from './places.ts';
import { type ClientInfo, ReadingRefused, type StorageReaders } from './reading.ts';

/** workerd's unique keys for the data of D1, KV and queues. */
const DATABASE_KEY = 'D1Database';
const NAMESPACE_KEY = 'KVNamespace';
const QUEUE_KEY = 'QueueShard';

export interface StorageQueriesOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  users: (appId: string) => AppUsers;
  readers: StorageReaders;
}

export type StorageReader = Omit<ClientInfo, 'owner'>;

/** Methods that return a `Buffer` return unparsed JSON. Methods throw `ReadingRefused`. */
export class StorageQueries {
  readonly #options: StorageQueriesOptions;

  constructor(options: StorageQueriesOptions) {
    this.#options = options;
  }

  /** Returns all of an app's storage, with counts and bytes. */
  async overview(looker: StorageReader): Promise<Buffer> {
    const { appId } = looker;
    const { databases, namespaces, classes, queues, consumers } = await this.places(appId);
    const named = ({ id, binding }: Stored) => ({ id, binding });
    const namespaceIds = namespaces.map(({ storageId }) => objectId(NAMESPACE_KEY, storageId));
    const totals = await this.#totals(looker, {
      [NAMESPACE_KEY]: namespaceIds,
      ...Object.fromEntries(classes.map(({ storageId }) => [storageId, []])),
    });
    return this.#ask(
      looker,
      {
        kind: 'overview',
        databases: databases.map((each) => ({
          ...named(each),
          name: each.name,
          path: this.#file(appId, DATABASE_KEY, each),
        })),
        namespaces: namespaces.map((each) => ({
          ...named(each),
          ...this.#namespace(appId, each),
          counted: totals?.[NAMESPACE_KEY]?.listed[objectId(NAMESPACE_KEY, each.storageId)] ?? null,
        })),
        classes: classes.map(({ className, storageId }) => ({
          class_name: className,
          directory: this.#directory(appId, storageId),
          counted: totalOf(totals?.[storageId]),
        })),
        queues,
        queueDirectory: this.#directory(appId, QUEUE_KEY),
      },
      {
        objects: {
          [DATABASE_KEY]: databases.map(({ storageId }) => objectId(DATABASE_KEY, storageId)),
          [NAMESPACE_KEY]: namespaceIds,
          [QUEUE_KEY]: consumers.length === 0 ? [] : 'all',
        },
      },
    );
  }

  /** Returns how many messages wait in each queue of an app. Empty for an app without a consumer. */
  async queues(looker: StorageReader): Promise<{ queue: string; messages: number }[]> {
    const { queues, consumers } = await this.places(looker.appId);
    if (consumers.length === 0) return [];
    const queueDirectory = this.#directory(looker.appId, QUEUE_KEY);
    const asked = { kind: 'overview', databases: [], namespaces: [], classes: [], queues, queueDirectory };
    const answer = await this.#ask(looker, asked, { objects: { [QUEUE_KEY]: 'all' } });
    return (JSON.parse(answer.toString()) as Result<'storage.overview'>).queues;
  }

  async database(looker: StorageReader, { database, ...asked }: DatabaseQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { databases } = await this.places(appId);
    const found = required(find(databases, database), `no database ${database}`);
    const path = this.#file(appId, DATABASE_KEY, found);
    return this.#ask(looker, { kind: 'database', path, ...asked }, databaseOf(found));
  }

  /** Returns the schema and rows of a database, or of some of its tables, as SQL. */
  async exportDatabase(looker: StorageReader, { database, tables }: ExportQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { databases } = await this.places(appId);
    const found = required(find(databases, database), `no database ${database}`);
    const path = this.#file(appId, DATABASE_KEY, found);
    return this.#ask(looker, { kind: 'export', path, tables }, databaseOf(found));
  }

  async objects(
    looker: StorageReader,
    { class_name, object, name, ...asked }: ObjectQuestion,
  ): Promise<Buffer> {
    const { appId } = looker;
    const { classes } = await this.places(appId);
    const { storageId } = required(
      classes.find(({ className }) => className === class_name),
      `no class ${class_name}`,
    );
    const id = object ?? (name === null ? null : objectId(storageId, name));
    const directory = this.#directory(appId, storageId);
    const alarms = await this.#alarms(looker, storageId);
    if (id === null) {
      const { after, limit } = asked;
      // One object more than `limit` shows whether another page follows.
      const needed = { objects: { [storageId]: { after, limit: limit + 1 } } };
      return this.#ask(looker, { kind: 'objects', directory, alarms, ...asked }, needed);
    }
    if (!/^[0-9a-f]{64}$/.test(id))
      throw new ReadingRefused('storage_not_found', 'the class has no such object');
    const needed = { objects: { [storageId]: [id] } };
    return this.#ask(looker, { kind: 'object', directory, alarms, object: id, name, ...asked }, needed);
  }

  /** Returns the keys of a namespace, or one value. */
  async keys(looker: StorageReader, { namespace, ...asked }: KeysQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { namespaces } = await this.places(appId);
    const found = required(find(namespaces, namespace), `no namespace ${namespace}`);
    const kind = asked.key === null ? 'keys' : 'key';
    const { storageId } = found;
    const needed = {
      objects: { [NAMESPACE_KEY]: [objectId(NAMESPACE_KEY, storageId)] },
      ...(asked.key !== null && { value: { namespace: storageId, key: asked.key } }),
    };
    return this.#ask(looker, { kind, ...this.#namespace(appId, found), ...asked }, needed);
  }

  /** Returns the Workflows of the live release, with the number and bytes of their instances. */
  async workflows(looker: StorageReader): Promise<Buffer> {
    const { appId } = looker;
    const { workflows } = await this.places(appId);
    if (workflows.length === 0) return Buffer.from('[]');
    const totals = await this.#totals(
      looker,
      Object.fromEntries(workflows.map(({ name }) => [workflowKey(name), []])),
    );
    return this.#ask(
      looker,
      {
        kind: 'workflows',
        workflows: workflows.map(({ name, className, binding }) => ({
          name,
          class_name: className,
          binding,
          directory: this.#directory(appId, workflowKey(name)),
          counted: totalOf(totals?.[workflowKey(name)]),
        })),
      },
      { objects: {} },
    );
  }

  async instances(looker: StorageReader, { workflow, ...asked }: InstancesQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { name } = await this.workflow(appId, workflow);
    const key = workflowKey(name);
    return this.#ask(
      looker,
      {
        kind: 'instances',
        directory: this.#directory(appId, key),
        statuses: INSTANCE_STATUSES,
        isLoaded: this.#options.apps.clusterOf(appId) !== null,
        ...asked,
      },
      { objects: { [key]: 'all' } },
    );
  }

  async instance(looker: StorageReader, asked: { workflow: string; instance: string }): Promise<Buffer> {
    const { appId } = looker;
    const key = workflowKey((await this.workflow(appId, asked.workflow)).name);
    const id = objectId(key, asked.instance);
    const path = objectFile(this.#options.paths.data(appId), key, id);
    const needed = { objects: { [key]: [id] } };
    return this.#ask(looker, { kind: 'instance', path, statuses: INSTANCE_STATUSES }, needed);
  }

  /** Finds a Workflow of the live release by name or binding. */
  async workflow(appId: string, asked: string): Promise<Workflow> {
    const { workflows } = await this.places(appId);
    const found =
      workflows.find(({ name }) => name === asked) ?? workflows.find(({ binding }) => binding === asked);
    if (found === undefined)
      throw new ReadingRefused('workflow_not_found', `the live release binds no Workflow ${asked}`);
    return found;
  }

  async places(appId: string): Promise<Places> {
    const { store, apps } = this.#options;
    const live = apps.get(appId)?.liveDeployId ?? null;
    const release = live === null ? null : await readRelease(await apps.release(appId, live));
    return placesOf({ ...emptyNames(), ...store.apps.storageNames(appId) }, release);
  }

  /** Asks a reader. @param needed what is loaded from the bucket first, for an app in the bucket */
  async #ask(
    { appId, signal }: StorageReader,
    question: { kind: string } & Record<string, unknown>,
    needed: Needed,
  ): Promise<Buffer> {
    const { users, readers, apps } = this.#options;
    const cluster = apps.clusterOf(appId);
    const hasRelease = apps.get(appId)?.liveDeployId !== null;
    if (cluster !== null && !hasRelease) await requireEmpty(cluster, needed, signal);
    const load = (read: () => Promise<Buffer>) =>
      apps
        .withCell(appId, 'a reading of its storage', async (cell) => {
          await loadNeeded(cluster!, cell, needed);
          return read();
        })
        .catch((error: unknown) => {
          if (error instanceof ReadingRefused || signal?.aborted) throw error;
          throw new ReadingRefused('app_unavailable', reason(error));
        });
    const clientInfo = { appId, owner: apps.ownerOf(appId), signal };
    const settled = () => apps.settled(appId);
    return readers.ask(
      clientInfo,
      users(appId).cell,
      question,
      settled,
      cluster !== null && hasRelease ? load : undefined,
    );
  }

  /** Returns counts and sizes of objects in the bucket; null for an app that keeps its data on this machine. */
  async #totals(
    { appId, signal }: StorageReader,
    asked: Record<string, string[]>,
  ): Promise<Record<string, ObjectList> | null> {
    const cluster = this.#options.apps.clusterOf(appId);
    return cluster === null ? null : cluster.objects(asked, signal).catch(unavailable);
  }

  /** Returns names and alarms (ms since 1970) of a class's objects, by object id; null for an app on this machine's disk. */
  async #alarms(
    { appId, signal = new AbortController().signal }: StorageReader,
    uniqueKey: string,
  ): Promise<Record<string, { name: string; alarm: number | null }> | null> {
    const cluster = this.#options.apps.clusterOf(appId);
    if (cluster === null) return null;
    const request = { earliest: [], named: [uniqueKey], before: Number.MAX_SAFE_INTEGER };
    const { alarms } = await cluster.readAlarms(request, signal).catch(unavailable);
    return Object.fromEntries(
      alarms.flat().map(({ name, time }) => [objectId(uniqueKey, name), { name, alarm: time }]),
    );
  }

  #directory(appId: string, uniqueKey: string): string {
    return join(this.#options.paths.data(appId), 'do', uniqueKey);
  }

  #file(appId: string, uniqueKey: string, { storageId }: Stored): string {
    return objectFile(this.#options.paths.data(appId), uniqueKey, objectId(uniqueKey, storageId));
  }

  #namespace(appId: string, namespace: Stored): { path: string; blobs: string; cache: string } {
    const id = objectId(NAMESPACE_KEY, namespace.storageId);
    const blobs = join(this.#options.paths.data(appId), 'kv');
    return {
      path: this.#file(appId, NAMESPACE_KEY, namespace),
      blobs: join(blobs, id, 'b'),
      cache: join(blobs, 'c'),
    };
  }
}

function required<Value>(value: Value | undefined, missing: string): Value {
  if (value === undefined) throw new ReadingRefused('storage_not_found', `the app has ${missing}`);
  return value;
}

function databaseOf({ storageId }: Stored): Needed {
  return { objects: { [DATABASE_KEY]: [objectId(DATABASE_KEY, storageId)] } };
}

function totalOf(list: ObjectList | undefined): { objects: number; bytes: number } | null {
  return list === undefined ? null : { objects: list.count, bytes: list.bytes };
}

/**
 * Checks that an app without a live release has no data in the bucket: no process could load the data.
 * @throws {ReadingRefused} when the app has data there
 */
async function requireEmpty(cluster: AppCluster, { objects }: Needed, signal?: AbortSignal): Promise<void> {
  const found = await cluster.objects(objects, signal).catch(unavailable);
  if (Object.values(found).every(({ count }) => count === 0)) return;
  throw new ReadingRefused(
    'storage_unreadable',
    'the app has data in the bucket, and no live release that could read it; deploy one, then read again',
  );
}

function unavailable(error: unknown): never {
  throw new ReadingRefused('app_unavailable', reason(error));
}
