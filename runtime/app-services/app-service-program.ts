// The side of the program of a service for apps: the host says which apps it serves.
import { flushCompileCache } from 'node:module';
import { log, reason } from '../log.ts';
import type { AppServiceReply, AppServiceRequest, CountsFor } from './app-service-messages.ts';
import type { SocketHandle } from './listening-socket.ts';

/** What serves one app. */
interface Server {
  /** Ends what is under way. */
  close(): Promise<void>;
  /** Begins or ends to leave those of the app's files alone that a copy of them may need. */
  hold?(isHeld: boolean): Promise<void>;
}

/** What the program was started with. No program that it starts gets it. */
export function serviceOptions<Options>(): Options {
  const { APP_SERVICE_OPTIONS: text } = process.env;
  delete process.env.APP_SERVICE_OPTIONS;
  return JSON.parse(text!) as Options;
}

/**
 * Serves the apps that the host names, each at a socket of its own, until the host ends.
 * @param name of the service, for messages
 * @param serve begins to listen
 */
export function serveApps(
  name: string,
  serve: (app: string, door: SocketHandle, countsFor: CountsFor) => Promise<Server>,
): void {
  const servers = new Map<string, Server>();
  /** What is done to an app, one after another. */
  const turns = new Map<string, Promise<void>>();
  const open = async ({ app, family, owner, isHeld }: AppServiceRequest, door: SocketHandle | undefined) => {
    if (door !== undefined && !servers.has(app)) servers.set(app, await serve(app, door, { family, owner }));
    await servers.get(app)?.hold?.(isHeld);
  };
  const close = async (app: string) => {
    const server = servers.get(app);
    servers.delete(app);
    await server?.close();
  };
  const reply = (reply: AppServiceReply) => process.send?.(reply);

  process.on('message', (asked: AppServiceRequest, door: unknown) => {
    const { id, app, isOpen } = asked;
    const before = turns.get(app) ?? Promise.resolve();
    const done = before.then(() => (isOpen ? open(asked, door as SocketHandle | undefined) : close(app)));
    turns.set(
      app,
      done.catch(() => {}),
    );
    done.then(
      () => reply({ id, error: null }),
      (error: unknown) => reply({ id, error: reason(error) }),
    );
  });
  // Its process is killed, never ended in order: what was compiled of its program is kept now.
  flushCompileCache();
  // It ends with the host.
  process.on('disconnect', () => process.exit());
  // One app's trouble must not end what the others do.
  process.on('uncaughtException', (error) => log('error', `the ${name} erred`, { error: error.stack }));
}
