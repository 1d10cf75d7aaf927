// The host's side of the bucket service: starts it when an app first needs it, says which apps it serves, and starts it
// again when it ends. The sockets are the host's, so that calls wait meanwhile.
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UsageRow } from '../../../sqlite/storage/objects.ts';
import { log, logRarely, reason } from '../../log.ts';
import { Backoff } from '../../machine/backoff.ts';
import { type Child, startChild } from '../../machine/child.ts';
import type { Layout } from '../../machine/data-directory.ts';
import { LineReader } from '../../machine/lines.ts';
import { withDataLimit } from '../../machine/process-limits.ts';
import { handOver } from '../../machine/rights.ts';
import { type AppUsers, asUser, dieWithParent, type User } from '../../machine/users.ts';
import type { BucketAccess } from './access.ts';
import { usageAt } from './client.ts';
import { makeDoor, type SocketHandle, sendable } from './door.ts';
import { type BucketReply, type BucketRequest, type ServiceOptions, SOCKET } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Its threads mostly wait for the disk. */
const ENVIRONMENT = { UV_THREADPOOL_SIZE: '16' };
/** Memory that it may use in all, in bytes, of which Node reserves 560 MiB; and for its JavaScript objects, in MiB. */
const MEMORY_BYTES = 3 * 1024 ** 3;
const HEAP_MB = 512;
/** Whose user the service is, among those of the apps. */
const SERVICE = 'bucket-service';
/** Longest wait of an app's start for its buckets, in ms. The service itself starts in about 200. */
const OPEN_TIMEOUT_MS = 10_000;
/** Longest time to give the buckets of a directory that was copied to the service's new user, in ms. */
const HAND_OVER_TIMEOUT_MS = 60_000;
/** All apps wait for it: it is started again soon, however often it ended. In ms. */
const LONGEST_DELAY_MS = 5_000;
/** Rights to pass through a directory: its owner's and its group's, not to see what is in it. */
const PASSED_BY_GROUP = 0o710;

export interface BucketsOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  service: ServiceOptions;
}

export class Buckets {
  readonly #options: BucketsOptions;
  /** Apps that the service is to serve. */
  readonly #wanted = new Set<string>();
  /** Their sockets. */
  readonly #doors = new Map<string, SocketHandle>();
  /** Those that it serves, or will when this resolves. */
  readonly #opened = new Map<string, Promise<void>>();
  #service: Promise<Service> | null = null;
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();

  constructor(options: BucketsOptions) {
    this.#options = options;
  }

  /** The process, while it runs. */
  get pid(): Promise<number | null> {
    return this.#service?.then(({ pid }) => pid).catch(() => null) ?? Promise.resolve(null);
  }

  /** Starts the service if any app has buckets, so that the first to need it does not wait. */
  warm(): void {
    const { allBuckets } = this.#options.paths;
    if (existsSync(allBuckets) && readdirSync(allBuckets).length > 0) void this.#running().catch(() => {});
  }

  /** An app's way to its buckets. */
  access(appId: string): BucketAccess {
    return {
      socket: this.#socket(appId),
      open: async () => {
        const late = sleep(OPEN_TIMEOUT_MS, undefined, { ref: false });
        await Promise.race([this.open(appId), late]).catch((error: unknown) =>
          log('error', 'the buckets of an app are not there', { app: appId, error: reason(error) }),
        );
      },
    };
  }

  /**
   * Has the service serve an app's buckets, which are made if there are none.
   * @returns the socket where it does
   */
  async open(appId: string): Promise<string> {
    this.#wanted.add(appId);
    let opened = this.#opened.get(appId);
    if (opened === undefined) {
      opened = this.#open(appId);
      this.#opened.set(appId, opened);
      // The next one who asks tries again.
      opened.catch(() => this.#opened.delete(appId));
    }
    await opened;
    return this.#socket(appId);
  }

  /** Whether an app ever had a bucket. */
  has(appId: string): boolean {
    return existsSync(this.#options.paths.buckets(appId));
  }

  /** What an app's buckets keep, by their storage ids. */
  async usage(appId: string): Promise<UsageRow[]> {
    return usageAt(await this.open(appId));
  }

  /** Ends what goes on in an app's buckets, whose files may then be moved. */
  async forget(appId: string): Promise<void> {
    this.#wanted.delete(appId);
    this.#opened.delete(appId);
    // When it does not run, or ends meanwhile, nothing goes on.
    const service = await this.#service?.catch(() => null);
    await service?.ask(appId, null).catch(() => {});
    this.#doors.get(appId)?.close();
    this.#doors.delete(appId);
  }

  /** Ends the service. All that it acknowledged is on the disk. */
  async close(): Promise<void> {
    this.#closing.abort();
    const service = await this.#service?.catch(() => null);
    await service?.end();
    for (const door of this.#doors.values()) door.close();
    this.#doors.clear();
  }

  #socket(appId: string): string {
    return join(this.#options.paths.buckets(appId), SOCKET);
  }

  async #open(appId: string): Promise<void> {
    const { paths, users } = this.#options;
    const directory = paths.buckets(appId);
    await makeDirectory(paths, directory, users(SERVICE).cell, users(appId).cell);
    const service = await this.#running();
    await service.ask(appId, directory, this.#door(appId));
  }

  #door(appId: string): SocketHandle {
    const door = this.#doors.get(appId) ?? makeDoor(this.#options.paths.doors, this.#socket(appId));
    this.#doors.set(appId, door);
    return door;
  }

  #running(): Promise<Service> {
    if (this.#service === null) {
      this.#closing.signal.throwIfAborted();
      this.#service = this.#start();
      this.#service.catch(() => {
        this.#service = null;
      });
    }
    return this.#service;
  }

  async #start(): Promise<Service> {
    const { users, service: options } = this.#options;
    const service = await Service.start(users(SERVICE).cell, options);
    const from = performance.now();
    void service.ended.then((how) => this.#again(how, performance.now() - from));
    return service;
  }

  /** Starts the service again after its end, with all the apps that it served. */
  async #again(how: string, livedMs: number): Promise<void> {
    this.#service = null;
    this.#opened.clear();
    const { signal } = this.#closing;
    if (signal.aborted) return;
    const delayMs = Math.min(this.#backoff.next(livedMs).delayMs, LONGEST_DELAY_MS);
    log('error', 'the bucket service ended and is started again', { how, delay_ms: delayMs });
    await sleep(delayMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const opened = await Promise.allSettled([...this.#wanted].map((app) => this.open(app)));
    const failed = opened.find((each) => each.status === 'rejected');
    if (failed) log('error', 'the buckets of some apps are not there', { error: reason(failed.reason) });
  }
}

/** The process. */
class Service {
  /** How it ended, when it has. */
  readonly ended: Promise<string>;
  readonly #child: Child;
  readonly #asked = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #lastId = 0;

  private constructor(child: Child) {
    this.#child = child;
    const lines = new LineReader((line) => logRarely('warn', `the bucket service says: ${line}`));
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => lines.write(chunk));
    child.process.on('message', ({ id, error }: BucketReply) => {
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (error === null) asked?.resolve();
      else asked?.reject(new Error(error));
    });
    // A message to a process that is ending.
    child.process.on('error', () => {});
    this.ended = child.exited.then(({ code, killedBy }) => {
      child.end();
      const how = killedBy ?? `exit code ${code}`;
      for (const { reject } of this.#asked.values()) reject(new Error(`the bucket service ended (${how})`));
      return how;
    });
  }

  static async start(user: User | null, options: ServiceOptions): Promise<Service> {
    const bound = user === null ? dieWithParent() : asUser(user);
    const limits = [...withDataLimit(MEMORY_BYTES), process.execPath, `--max-old-space-size=${HEAP_MB}`];
    const words = [...bound, ...limits, '--no-warnings', PROGRAM, JSON.stringify(options)];
    return new Service(
      await startChild(words, {
        title: 'bucket service',
        environment: ENVIRONMENT,
        stdin: 'ignore',
        messages: true,
      }),
    );
  }

  get pid(): number {
    return this.#child.process.pid!;
  }

  /** @throws {Error} when the service fails at it, or ends */
  async ask(app: string, open: string | null, door?: SocketHandle): Promise<void> {
    const id = ++this.#lastId;
    const answered = new Promise<void>((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    const request: BucketRequest = { id, app, open };
    this.#child.process.send(request, door && sendable(door), (error) => {
      if (error) this.#asked.get(id)?.reject(error);
    });
    await answered;
  }

  async end(): Promise<void> {
    this.#child.end();
    await this.ended;
  }
}

/** Makes the directory of an app's buckets: the service's own, through which the app's user comes to the socket. */
async function makeDirectory(
  paths: Layout,
  directory: string,
  service: User | null,
  app: User | null,
): Promise<void> {
  mkdirSync(paths.allBuckets, { recursive: true, mode: 0o700 });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (service === null || app === null) return;
  chmodSync(paths.allBuckets, 0o711);
  await handOver([directory], service, HAND_OVER_TIMEOUT_MS);
  const { gid, mode } = statSync(directory);
  if (gid === app.gid && (mode & 0o777) === PASSED_BY_GROUP) return;
  chownSync(directory, service.uid, app.gid);
  chmodSync(directory, PASSED_BY_GROUP);
}
