// The side of the program of a service for apps: the host says which apps it serves.
import { log, reason } from '../log.ts';
import type { AppServiceReply, AppServiceRequest } from './app-service-messages.ts';
import type { SocketHandle } from './door.ts';

/** What serves one app. */
interface Server {
  /** Ends what is under way. */
  close(): Promise<void>;
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
 * @param serve begins to listen. `family`: the app that counts, which is another one where `app` is its preview
 */
export function serveApps(
  name: string,
  serve: (app: string, door: SocketHandle, family: string) => Promise<Server>,
): void {
  const servers = new Map<string, Server>();
  /** What is done to an app, one after another. */
  const turns = new Map<string, Promise<void>>();
  const open = async (app: string, family: string, door: SocketHandle) => {
    if (!servers.has(app)) servers.set(app, await serve(app, door, family));
  };
  const close = async (app: string) => {
    const server = servers.get(app);
    servers.delete(app);
    await server?.close();
  };
  const reply = (reply: AppServiceReply) => process.send?.(reply);

  process.on('message', ({ id, app, family, isOpen }: AppServiceRequest, door: unknown) => {
    const before = turns.get(app) ?? Promise.resolve();
    const done = before.then(() => (isOpen ? open(app, family, door as SocketHandle) : close(app)));
    turns.set(
      app,
      done.catch(() => {}),
    );
    done.then(
      () => reply({ id, error: null }),
      (error: unknown) => reply({ id, error: reason(error) }),
    );
  });
  // It ends with the host.
  process.on('disconnect', () => process.exit());
  // One app's trouble must not end what the others do.
  process.on('uncaughtException', (error) => log('error', `the ${name} erred`, { error: error.stack }));
}
