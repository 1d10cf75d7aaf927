// Runs in the process of a service for apps, such as the mail service. The host decides which apps the service serves.
import { flushCompileCache } from 'node:module';
import { log, reason } from '../log.ts';
import type { AppServiceReply, AppServiceRequest, CountsFor } from './app-service-messages.ts';
import type { SocketHandle } from './listening-socket.ts';

/** The server of one app. */
interface Server {
  /** Ends all calls. */
  close(): Promise<void>;
  /** Starts or stops keeping the files that a copy of the app may need. */
  hold?(isHeld: boolean): Promise<void>;
}

/** Returns the program's options from the environment, and removes them there: child processes must not get them. */
export function serviceOptions<Options>(): Options {
  const { APP_SERVICE_OPTIONS: text } = process.env;
  delete process.env.APP_SERVICE_OPTIONS;
  return JSON.parse(text!) as Options;
}

/**
 * Serves the apps that the host names, each at its own socket, until the host ends.
 * @param name of the service, for messages
 * @param serve starts the server of one app at its socket
 */
export function serveApps(
  name: string,
  serve: (app: string, listener: SocketHandle, countsFor: CountsFor, about: unknown) => Promise<Server>,
): void {
  const servers = new Map<string, Server>();
  /** A queue for each app: its operations run one after another. */
  const turns = new Map<string, Promise<void>>();
  const open = async (
    { app, family, owner, isHeld, about }: AppServiceRequest,
    listener: SocketHandle | undefined,
  ) => {
    if (listener !== undefined && !servers.has(app))
      servers.set(app, await serve(app, listener, { family, owner }, about));
    await servers.get(app)?.hold?.(isHeld);
  };
  const close = async (app: string) => {
    const server = servers.get(app);
    servers.delete(app);
    await server?.close();
  };
  const reply = (reply: AppServiceReply) => process.send?.(reply);

  process.on('message', (asked: AppServiceRequest, listener: unknown) => {
    // A message of another kind, which this service's own listener handles.
    if (asked.app === undefined) return;
    const { id, app, isOpen } = asked;
    const before = turns.get(app) ?? Promise.resolve();
    const done = before.then(() => (isOpen ? open(asked, listener as SocketHandle | undefined) : close(app)));
    turns.set(
      app,
      done.catch(() => {}),
    );
    done.then(
      () => reply({ id, error: null }),
      (error: unknown) => reply({ id, error: reason(error) }),
    );
  });
  // Node saves the compile cache at an orderly exit. The host kills this process instead, so the cache is saved now.
  flushCompileCache();
  // The channel closes when the host has ended.
  process.on('disconnect', () => process.exit());
  // An error of one app must not end the calls of others.
  process.on('uncaughtException', (error) =>
    log('error', `the ${name} had an uncaught error`, { error: error.stack }),
  );
}
