// Makes the containers that the container service asks for. The service, which parses what apps send, never reaches the
// engine: the engine's socket gives power over the whole machine.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { User } from '../isolation/users.ts';
import { log, logRarely, reason } from '../log.ts';
import type { Child } from '../processes/child.ts';
import { type BoundSocket, bindSocket, sendable } from '../sockets/bound-socket.ts';
import { emptyImage } from './empty-image.ts';
import { type Engine, EngineError } from './engine.ts';
import {
  type ContainerEnd,
  ContainerRefusal,
  type ContainerReply,
  ContainerRequest,
  MOST_CONTAINERS,
  type Spec,
  socketsOf,
} from './messages.ts';

const LABEL = 'dev.cellar.host';
const LINK_PROGRAM = new URL('./link-program.js', import.meta.url).pathname;
/**
 * The image of links: helper containers that run `link-program.js`. It has only an empty directory, because a link runs
 * this machine's Node.
 */
const LINK_IMAGE = 'localhost/cellar-link';
const LINK_MEMORY_MB = 96;
const LINK_TASKS = 32;
const TASKS = 512;
const FILES = 4_096;
const USER_TASKS = 32_768;
/**
 * Directories that a container may write to, besides its volumes. They are in memory, within the container's memory limit.
 */
const WRITABLE = ['/tmp', '/var/tmp', '/run'];
const MIB = 2 ** 20;
/**
 * The capabilities that images need to start as root and then become another user. The rest of Docker's defaults is
 * left out.
 */
const CAPABILITIES = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETGID',
  'SETUID',
];

export interface LauncherOptions {
  engine: Engine;
  /** Directory of the sockets of containers. */
  sockets: string;
  /** The user of the service and of links; `null`: the host's own. */
  user: () => User | null;
  /** Resolves when the containers of an earlier run of this Cellar are removed. */
  cleared: Promise<void>;
  /** Adds or removes the firewall rule that opens a port on 127.0.0.1 to this app's process only. */
  givePort: (appId: string, port: number, isGiven: boolean) => Promise<void>;
  /** Writes a line into an app's log. */
  say: (appId: string, text: string) => void;
}

/** A container and its link. `id` and `link`: their ids at the engine; null while they do not exist. */
interface Made {
  app: string;
  link: string | null;
  id: string | null;
  /** The port on 127.0.0.1 at which the app's process reaches the container. */
  port: number;
  /** Settles with the last call for this container. Its calls run one after another. */
  turn: Promise<unknown>;
}

/** Handles the requests of one process of the container service. When that process ends, removes its containers. */
export class ContainerLauncher {
  readonly #options: LauncherOptions;
  readonly #label: string;
  readonly #containers = new Map<number, Made>();
  readonly #ended = new AbortController();
  /** Resolves when the containers that an earlier process of the service left are removed. */
  readonly #ready: Promise<void>;
  readonly #removed: Promise<void>;

  constructor(child: Child, options: LauncherOptions) {
    this.#options = options;
    this.#label = labelOf(options.sockets);
    this.#ready = options.cleared.then(() => this.#removeAll());
    child.process.on('message', (message: { container?: unknown; call?: unknown }) => {
      const refusal = ContainerRefusal.safeParse(message).data;
      if (refusal !== undefined) options.say(refusal.app, `a container was refused: ${refusal.reason}`);
      if (message.container === undefined) return;
      const asked = ContainerRequest.safeParse(message);
      if (!asked.success) {
        const error = { status: 400, message: 'the container is invalid' };
        if (Number.isInteger(message.call)) child.process.send({ call: message.call, error });
        return;
      }
      void this.#answer(child, asked.data);
    });
    this.#removed = child.exited.then(async () => {
      this.#ended.abort();
      const left = [...this.#containers.values()];
      await Promise.allSettled(left.map(({ turn }) => turn));
      await Promise.allSettled(left.map(({ app, port }) => options.givePort(app, port, false)));
      await this.#removeAll();
    });
  }

  /** Resolves when the service has ended and its containers are removed. */
  get removed(): Promise<void> {
    return this.#removed;
  }

  /** The number of containers that an app has. */
  count(app: string): number {
    return [...this.#containers.values()].filter((made) => made.app === app && made.id !== null).length;
  }

  async #answer(child: Child, { call, container, wanted }: ContainerRequest): Promise<void> {
    const reply = (error: ContainerReply['error'], listener?: BoundSocket['handle']) => {
      if (!child.process.connected) return listener?.close();
      child.process.send({ call, error } satisfies ContainerReply, listener && sendable(listener), () =>
        listener?.close(),
      );
    };
    try {
      await this.#ready;
      if (wanted.do === 'listen') return reply(null, await this.#listen(container, wanted.app));
      const made = this.#containers.get(container);
      if (made === undefined) throw new EngineError(404, 'no such container');
      const done = made.turn.then(() => this.#act(child, container, made, wanted));
      made.turn = done.catch(() => {});
      await done;
      reply(null);
    } catch (error) {
      if (!(error instanceof EngineError))
        logRarely('error', 'the container engine does not answer', { error: reason(error) });
      reply(
        error instanceof EngineError
          ? { status: error.status, message: error.message }
          : { status: 503, message: 'the container engine of this Cellar does not answer' },
      );
    }
  }

  /** Binds a port on 127.0.0.1, which the firewall opens to this app's process only. */
  async #listen(container: number, app: string): Promise<BoundSocket['handle']> {
    if (this.#containers.has(container)) throw new EngineError(400, 'the container is invalid');
    if (this.#containers.size >= MOST_CONTAINERS)
      throw new EngineError(429, `this machine runs ${MOST_CONTAINERS} containers already; try again later`);
    const { handle, port } = bindSocket(0, '127.0.0.1');
    this.#containers.set(container, { app, link: null, id: null, port, turn: Promise.resolve() });
    // On a failure the entry stays: the service then sends `close`, which also withdraws the port.
    await this.#options.givePort(app, port, true).catch((error: unknown) => {
      handle.close();
      throw error;
    });
    return handle;
  }

  async #act(
    child: Child,
    container: number,
    made: Made,
    wanted: Exclude<ContainerRequest['wanted'], { do: 'listen' }>,
  ): Promise<void> {
    const { engine } = this.#options;
    if (wanted.do === 'create') return this.#create(container, made, wanted.spec);
    if (wanted.do === 'remove' || wanted.do === 'close') {
      const ids = [made.id, made.link].filter((id) => id !== null);
      Object.assign(made, { id: null, link: null });
      if (wanted.do === 'close') this.#containers.delete(container);
      try {
        for (const id of ids) await engine.remove(id);
      } finally {
        if (wanted.do === 'close') await this.#options.givePort(made.app, made.port, false);
      }
      return;
    }
    if (made.id === null) throw new EngineError(404, 'no such container');
    if (wanted.do === 'signal') return engine.signal(made.id, wanted.signal);
    await engine.start(made.id);
    void engine
      .wait(made.id, this.#ended.signal)
      .catch(() => 137)
      .then((exitCode) => {
        if (child.process.connected)
          child.process.send({ container, exitCode } satisfies ContainerEnd, () => {});
      });
  }

  async #create(container: number, made: Made, spec: Spec): Promise<void> {
    const { engine } = this.#options;
    const volumes = await engine.volumesOf(spec.image);
    if (volumes === null)
      throw new EngineError(
        404,
        `this Cellar's container engine has no image ${spec.image}: its operator adds it, such as by podman pull or podman build`,
      );
    const name = `cellar-${this.#label.split('=')[1]}-${container}`;
    if (made.link === null) {
      if ((await engine.volumesOf(LINK_IMAGE)) === null) await engine.importImage(LINK_IMAGE, emptyImage());
      made.link = await engine.create(`${name}-link`, this.#linkSettings(container));
      await engine.start(made.link);
    }
    if (made.id !== null) await engine.remove(made.id);
    made.id = null;
    made.id = await engine.create(name, this.#settings(spec, made.link, volumes));
  }

  #settings({ image, memoryMb, cpu, command, environment }: Spec, link: string, volumes: string[]): object {
    const memory = `rw,nosuid,nodev,mode=1777,size=${memoryMb}m`;
    return {
      Image: image,
      ...(command !== null && { Cmd: command }),
      Env: environment,
      Labels: this.#labels(),
      HostConfig: {
        ...bounds(memoryMb, TASKS),
        NetworkMode: `container:${link}`,
        NanoCpus: cpu * 1_000_000,
        CapAdd: CAPABILITIES,
        Tmpfs: Object.fromEntries([...WRITABLE, ...volumes].map((path) => [path, memory])),
      },
    };
  }

  #linkSettings(container: number): object {
    const { sockets, user } = this.#options;
    const account = user();
    const libraries = ['/lib', '/lib64', '/usr/lib', '/usr/lib64'].filter(existsSync);
    return {
      Image: LINK_IMAGE,
      Cmd: ['/node', '--max-old-space-size=32', '/link.js'],
      ...(account !== null && { User: `${account.uid}:${account.gid}` }),
      Labels: this.#labels(),
      HostConfig: {
        ...bounds(LINK_MEMORY_MB, LINK_TASKS),
        NetworkMode: 'none',
        Binds: [
          ...libraries.map((path) => `${path}:${path}:ro`),
          `${process.execPath}:/node:ro`,
          `${LINK_PROGRAM}:/link.js:ro`,
          `${socketsOf(sockets, container)}:/sockets`,
        ],
      },
    };
  }

  #labels(): Record<string, string> {
    const [name, value] = this.#label.split('=');
    return { [name!]: value! };
  }

  #removeAll(): Promise<void> {
    const { engine, sockets } = this.#options;
    return removeContainers(engine, sockets);
  }
}

/**
 * Removes the containers of this Cellar. Never rejects.
 * @param sockets directory of the sockets of its containers
 */
export async function removeContainers(engine: Engine, sockets: string): Promise<void> {
  try {
    const ids = await engine.labelled(labelOf(sockets));
    // In two rounds: a link's network is in use until its container is removed.
    for (let round = 0; round < 2; round++)
      await Promise.all(ids.map((id) => engine.remove(id).catch(() => {})));
  } catch (error) {
    log('error', 'the containers of apps could not be removed', { error: reason(error) });
  }
}

/** Returns the label of this Cellar's containers. Other Cellars and programs may use the same engine. */
function labelOf(sockets: string): string {
  return `${LABEL}=${createHash('sha256').update(sockets).digest('hex').slice(0, 16)}`;
}

/** Returns the engine's settings that limit a container: a link, or one of an app. */
function bounds(memoryMb: number, tasks: number): object {
  return {
    Memory: memoryMb * MIB,
    MemorySwap: memoryMb * MIB,
    PidsLimit: tasks,
    // The kernel counts `nproc` for a user, over all containers. So only `PidsLimit` limits the processes of one
    // container.
    Ulimits: [
      { Name: 'nofile', Soft: FILES, Hard: FILES },
      { Name: 'nproc', Soft: USER_TASKS, Hard: USER_TASKS },
    ],
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    ReadonlyRootfs: true,
    // Otherwise the engine would keep all output on the disk.
    LogConfig: { Type: 'none' },
  };
}
