// The host's side of the AI service.
import { join } from 'node:path';
import { AppService, type HostServiceAccess } from '../machine/app-service.ts';
import type { Layout } from '../machine/data-directory.ts';
import { makePassage } from '../machine/rights.ts';
import type { AppUsers } from '../machine/users.ts';
import type { AiServer } from './upstream.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
const MEMORY_BYTES = 3 * 1024 ** 3;
const HEAP_MB = 768;
/** Whose user the service is, among those of the apps. */
const SERVICE = 'ai-service';
const SOCKET = 'ai.sock';

export interface AiOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  /** Its `url` is empty: there is none. */
  server: AiServer;
}

export class Ai {
  readonly #service: AppService | null;

  constructor({ paths, users, server }: AiOptions) {
    this.#service =
      server.url === ''
        ? null
        : new AppService({
            name: 'AI service',
            program: PROGRAM,
            options: server,
            memoryBytes: MEMORY_BYTES,
            heapMb: HEAP_MB,
            user: () => users(SERVICE).cell,
            workshop: paths.doors,
            socket: (appId) => join(paths.run(appId), SOCKET),
            prepare: (appId) => makePassage(paths.run(appId), users(appId).cell),
          });
  }

  /** An app's way to the AI server; null when there is none. */
  access(appId: string): HostServiceAccess | null {
    return this.#service?.access(appId) ?? null;
  }

  /** Ends what goes on for an app. */
  async forget(appId: string): Promise<void> {
    await this.#service?.forget(appId);
  }

  async close(): Promise<void> {
    await this.#service?.close();
  }
}
