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
import { INSTANCE_STATUSES } from '../../handlers/contract/storage/workflows.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import { readRelease } from '../builds/release/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { workflowKey } from '../fleets/config/workflows.ts';
import type { AppUsers } from '../isolation/users.ts';
import { emptyNames } from './names.ts';
import { find, objectFile, objectId, type Places, placesOf, type Stored } from './places.ts';
import { type ClientInfo, ReadingRefused, type StorageReaders } from './reading.ts';

/** Unique keys of the data of workerd's own services. */
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

/** Who reads an app's storage. */
export type StorageReader = Omit<ClientInfo, 'owner'>;

/** Answers are unparsed JSON. Methods throw `ReadingRefused`. */
export class StorageQueries {
  readonly #options: StorageQueriesOptions;

  constructor(options: StorageQueriesOptions) {
    this.#options = options;
  }

  /** All of an app's storage, with counts and bytes. */
  async overview(looker: StorageReader): Promise<Buffer> {
    const { appId } = looker;
    const { databases, namespaces, classes, queues } = await this.places(appId);
    const named = ({ id, binding }: Stored) => ({ id, binding });
    return this.#ask(looker, {
      kind: 'overview',
      databases: databases.map((each) => ({
        ...named(each),
        name: each.name,
        path: this.#file(appId, DATABASE_KEY, each),
      })),
      namespaces: namespaces.map((each) => ({ ...named(each), ...this.#namespace(appId, each) })),
      classes: classes.map(({ className, storageId }) => ({
        class_name: className,
        directory: this.#directory(appId, storageId),
      })),
      queues,
      queueDirectory: this.#directory(appId, QUEUE_KEY),
    });
  }

  async database(looker: StorageReader, { database, ...asked }: DatabaseQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { databases } = await this.places(appId);
    const found = required(find(databases, database), `no database ${database}`);
    return this.#ask(looker, { kind: 'database', path: this.#file(appId, DATABASE_KEY, found), ...asked });
  }

  /** A database's schema and rows as SQL, or only some tables. */
  async exportDatabase(looker: StorageReader, { database, tables }: ExportQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { databases } = await this.places(appId);
    const found = required(find(databases, database), `no database ${database}`);
    return this.#ask(looker, { kind: 'export', path: this.#file(appId, DATABASE_KEY, found), tables });
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
    if (id === null) return this.#ask(looker, { kind: 'objects', directory, ...asked });
    if (!/^[0-9a-f]{64}$/.test(id))
      throw new ReadingRefused('storage_not_found', 'the class has no such object');
    return this.#ask(looker, { kind: 'object', directory, object: id, name, ...asked });
  }

  /** The keys of a namespace, or one value. */
  async keys(looker: StorageReader, { namespace, ...asked }: KeysQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { namespaces } = await this.places(appId);
    const found = required(find(namespaces, namespace), `no namespace ${namespace}`);
    const kind = asked.key === null ? 'keys' : 'key';
    return this.#ask(looker, { kind, ...this.#namespace(appId, found), ...asked });
  }

  /** The Workflows of the live release, with their instances' storage. */
  async workflows(looker: StorageReader): Promise<Buffer> {
    const { appId } = looker;
    const { workflows } = await this.places(appId);
    if (workflows.length === 0) return Buffer.from('[]');
    return this.#ask(looker, {
      kind: 'workflows',
      workflows: workflows.map(({ name, className, binding }) => ({
        name,
        class_name: className,
        binding,
        directory: this.#directory(appId, workflowKey(name)),
      })),
    });
  }

  async instances(looker: StorageReader, { workflow, ...asked }: InstancesQuestion): Promise<Buffer> {
    const { appId } = looker;
    const { name } = await this.workflow(appId, workflow);
    return this.#ask(looker, {
      kind: 'instances',
      directory: this.#directory(appId, workflowKey(name)),
      statuses: INSTANCE_STATUSES,
      ...asked,
    });
  }

  async instance(looker: StorageReader, asked: { workflow: string; instance: string }): Promise<Buffer> {
    const { appId } = looker;
    const key = workflowKey((await this.workflow(appId, asked.workflow)).name);
    const path = objectFile(this.#options.paths.data(appId), key, objectId(key, asked.instance));
    return this.#ask(looker, { kind: 'instance', path, statuses: INSTANCE_STATUSES });
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
    const { store, paths, apps } = this.#options;
    const live = apps.get(appId)?.liveDeployId ?? null;
    const release = live === null ? null : await readRelease(paths.release(appId, live));
    return placesOf({ ...emptyNames(), ...store.apps.storageNames(appId) }, release);
  }

  #ask(
    { appId, signal }: StorageReader,
    question: { kind: string } & Record<string, unknown>,
  ): Promise<Buffer> {
    const { users, readers, apps } = this.#options;
    return readers.ask({ appId, owner: apps.ownerOf(appId), signal }, users(appId).cell, question, () =>
      apps.settled(appId),
    );
  }

  #directory(appId: string, uniqueKey: string): string {
    return join(this.#options.paths.data(appId), 'do', uniqueKey);
  }

  #file(appId: string, uniqueKey: string, { storageId }: Stored): string {
    return objectFile(this.#options.paths.data(appId), uniqueKey, objectId(uniqueKey, storageId));
  }

  #namespace(appId: string, namespace: Stored): { path: string; blobs: string } {
    const id = objectId(NAMESPACE_KEY, namespace.storageId);
    const blobs = join(this.#options.paths.data(appId), 'kv');
    return { path: this.#file(appId, NAMESPACE_KEY, namespace), blobs: join(blobs, id, 'b') };
  }
}

function required<Value>(value: Value | undefined, missing: string): Value {
  if (value === undefined) throw new ReadingRefused('storage_not_found', `the app has ${missing}`);
  return value;
}
