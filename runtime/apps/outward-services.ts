// The services by which apps reach the AI server and the mail server. Each is a process of the host that is started when an app
// first needs it, and answers every app at a socket of the app's own.
import { join } from 'node:path';
import type { AiServer } from '../ai/upstream.ts';
import { AppService, type HostServiceAccess } from '../app-services/app-service.ts';
import type { CountsFor } from '../app-services/app-service-messages.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { OutwardService } from '../fleets/config/outward.ts';
import { makePassage } from '../isolation/rights.ts';
import type { AppUsers } from '../isolation/users.ts';
import type { MailServiceOptions } from '../mail/app-server.ts';

export interface OutwardServicesOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  /** Null: there is no AI server. */
  ai: AiServer | null;
  /** Null: there is no mail server. */
  mail: MailServiceOptions | null;
}

interface Program {
  name: string;
  program: string;
  /** The id under which the service has its user, among the ids of apps. */
  user: string;
  /** The name of an app's socket, among those of the app's process. */
  socket: string;
  memoryBytes: number;
  heapMb: number;
}

const GIB = 1024 ** 3;
const PROGRAMS: Record<OutwardService, Program> = {
  ai: {
    name: 'AI service',
    program: new URL('../ai/program.ts', import.meta.url).pathname,
    user: 'ai-service',
    socket: 'ai.sock',
    memoryBytes: 3 * GIB,
    heapMb: 768,
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

export class OutwardServices {
  readonly #services = new Map<OutwardService, AppService>();

  constructor({ paths, users, ai, mail }: OutwardServicesOptions) {
    for (const [type, options] of [
      ['ai', ai],
      ['send_email', mail],
    ] as const) {
      if (options === null) continue;
      const { user, socket, ...program } = PROGRAMS[type];
      const service = new AppService({
        ...program,
        options,
        user: () => users(user).cell,
        workshop: paths.doors,
        socket: (appId) => join(paths.run(appId), socket),
        prepare: (appId) => makePassage(paths.run(appId), users(appId).cell),
      });
      this.#services.set(type, service);
    }
  }

  /**
   * An app's way to each service that is set up.
   * @param countsFor whom its calls count for. Default: itself
   */
  access(appId: string, countsFor?: () => CountsFor): Partial<Record<OutwardService, HostServiceAccess>> {
    const ways = [...this.#services].map(([type, service]) => [type, service.access(appId, countsFor)]);
    return Object.fromEntries(ways);
  }

  /** Ends the requests of an app that are under way. */
  async forget(appId: string): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.forget(appId)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.close()));
  }
}
