// The services for AI, images, browsers, containers and mail. Each is a process of the host, started when an app first needs
// it. It listens on one socket for each app.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { AiServer } from '../ai/upstream.ts';
import { AppService, type HostServiceAccess } from '../app-services/app-service.ts';
import type { CountsFor } from '../app-services/app-service-messages.ts';
import { type LauncherOptions, serveLaunches } from '../browser/launcher.ts';
import type { BrowserServiceOptions } from '../browser/messages.ts';
import { Engine } from '../containers/engine.ts';
import { ContainerLauncher, removeContainers } from '../containers/launcher.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { HostService } from '../fleets/config/outward.ts';
import { makeOwnDirectory, makeTraversable } from '../isolation/rights.ts';
import type { AppUsers, User } from '../isolation/users.ts';
import type { MailServiceOptions } from '../mail/app-server.ts';

export interface OutwardServicesOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  /** Null without an AI server. */
  ai: AiServer | null;
  /** Null without a browser. */
  browser?:
    | (Pick<LauncherOptions, 'program' | 'isolation'> & Pick<BrowserServiceOptions, 'egress' | 'url'>)
    | null;
  /** The socket of the container engine, and the private addresses that apps may reach; null without an engine. */
  containers?:
    | ({
        engine: string;
        /** Writes a line into an app's log. */
        say: (appId: string, text: string) => void;
      } & Pick<LauncherOptions, 'isolation'> &
        Pick<BrowserServiceOptions, 'egress'>)
    | null;
  /** Null without a mail server. */
  mail: MailServiceOptions | null;
}

interface Program {
  name: string;
  program: string;
  /** The id under which the service gets its user, like an app's id. */
  user: string;
  /** File name of an app's socket, in the directory of the app's process. */
  socket: string;
  memoryBytes: number;
  heapMb: number;
  computes?: boolean;
  environment?: Record<string, string>;
}

const GIB = 1024 ** 3;
/** The services of this file. Vectors belong to the storage, so `Buckets` has their service. */
type OutwardService = Exclude<HostService, 'vectors'>;

const PROGRAMS: Record<OutwardService, Program> = {
  ai: {
    name: 'AI service',
    program: new URL('../ai/program.ts', import.meta.url).pathname,
    user: 'ai-service',
    socket: 'ai.sock',
    memoryBytes: 3 * GIB,
    heapMb: 768,
  },
  images: {
    name: 'images service',
    program: new URL('../images/program.ts', import.meta.url).pathname,
    user: 'images-service',
    socket: 'images.sock',
    memoryBytes: 3 * GIB,
    heapMb: 256,
    computes: true,
    // Otherwise each thread keeps freed pixels in an arena of its own.
    environment: { MALLOC_ARENA_MAX: '2' },
  },
  browser: {
    name: 'browser service',
    program: new URL('../browser/program.ts', import.meta.url).pathname,
    user: 'browser-service',
    socket: 'browser.sock',
    memoryBytes: 2 * GIB,
    heapMb: 256,
    // Each browser session may look up two host names at a time: slow lookups of one session must not delay the others.
    environment: { UV_THREADPOOL_SIZE: '32' },
  },
  containers: {
    name: 'container service',
    program: new URL('../containers/program.ts', import.meta.url).pathname,
    user: 'container-service',
    socket: 'containers.sock',
    memoryBytes: 2 * GIB,
    heapMb: 256,
    // Half of the threads look up host names for containers: see `runtime/containers/egress.ts`.
    environment: { UV_THREADPOOL_SIZE: '32' },
  },
  send_email: {
    name: 'mail service',
    program: new URL('../mail/program.ts', import.meta.url).pathname,
    user: 'mail-service',
    socket: 'mail.sock',
    memoryBytes: 2 * GIB,
    heapMb: 512,
  },
};

/** Services that connect, for an app, to any address that the app may reach. */
const PROXIES = ['browser', 'containers'] as const;

export class OutwardServices {
  readonly #users: (appId: string) => AppUsers;
  readonly #services = new Map<OutwardService, AppService>();
  /** The launcher of the container service; null before the first start. */
  #launcher: ContainerLauncher | null = null;

  constructor({ paths, users, ai, browser = null, containers = null, mail }: OutwardServicesOptions) {
    this.#users = users;
    const sockets = join(paths.browsers, 's');
    const containerSockets = join(paths.containers, 's');
    const engine = containers && new Engine(containers.engine);
    // A killed host leaves its containers behind.
    const cleared = engine === null ? Promise.resolve() : removeContainers(engine, containerSockets);
    for (const [type, options] of [
      ['ai', ai],
      ['images', {}],
      ['browser', browser && { sockets, egress: browser.egress, url: browser.url }],
      ['containers', containers && { sockets: containerSockets, egress: containers.egress }],
      ['send_email', mail],
    ] as const) {
      if (options === null) continue;
      const { user, socket, ...program } = PROGRAMS[type];
      const service = new AppService({
        ...program,
        options,
        user: () => users(user).cell,
        workshop: paths.serviceSockets,
        socket: (appId) => join(paths.run(appId), socket),
        prepare: (appId) => makeTraversable(paths.run(appId), users(appId).cell),
        onStart: (child) => {
          if (type === 'containers') {
            rmSync(paths.containers, { recursive: true, force: true });
            makeOwnDirectory(containerSockets, users(user).cell);
            this.#launcher = new ContainerLauncher(child, {
              engine: engine!,
              cleared,
              sockets: containerSockets,
              user: () => users(user).cell,
              givePort: (appId, port, isGiven) =>
                containers!.isolation.givePort(users(appId).cell, port, isGiven),
              say: containers!.say,
            });
          }
          if (type !== 'browser') return;
          // The browsers of a killed host leave files behind.
          rmSync(paths.browsers, { recursive: true, force: true });
          makeOwnDirectory(sockets, users(user).cell);
          serveLaunches(child, {
            ...browser!,
            directory: paths.browsers,
            sockets,
            user: () => users(user).build,
          });
        },
      });
      this.#services.set(type, service);
    }
  }

  /**
   * Returns an app's access to each configured service.
   * @param countsFor returns the app family and the account whose quotas the app's calls use. Default: the app itself
   */
  access(appId: string, countsFor?: () => CountsFor): Partial<Record<OutwardService, HostServiceAccess>> {
    const ways = [...this.#services].map(([type, service]) => [type, service.access(appId, countsFor)]);
    return Object.fromEntries(ways);
  }

  /**
   * Returns the Linux users of the services that connect to addresses that apps choose. The packet filter refuses them
   * Cellar's own ports.
   */
  proxies(): User[] {
    const configured = PROXIES.filter((type) => this.#services.has(type));
    return configured.flatMap((type) => this.#users(PROGRAMS[type].user).cell ?? []);
  }

  /** The number of containers that an app has. */
  containersOf(appId: string): number {
    return this.#launcher?.count(appId) ?? 0;
  }

  /** Stops serving an app: ends its running calls, and closes its sockets. */
  async forget(appId: string): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.forget(appId)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.close()));
    await this.#launcher?.removed;
  }
}
