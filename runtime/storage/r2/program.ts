// The bucket service: a process that keeps the objects of all apps, each app's apart. The host says which apps it serves.
import { log, reason } from '../../log.ts';
import { AppServer } from './app-server.ts';
import type { SocketHandle } from './door.ts';
import { KeptOpen } from './kept-open.ts';
import type { BucketReply, BucketRequest, ServiceOptions } from './messages.ts';
import { Room } from './room.ts';

const options = JSON.parse(process.argv[2]!) as ServiceOptions;
// The app whose buckets these are passes through their directory to its socket, and reads no file in it.
process.umask(0o077);
const servers = new Map<string, AppServer>();

/** What is done to an app, one after another. */
const turns = new Map<string, Promise<void>>();

process.on('message', ({ id, app, open }: BucketRequest, door: unknown) => {
  const before = turns.get(app) ?? Promise.resolve();
  const done = before.then(() => (open === null ? close(app) : serve(app, open, door as SocketHandle)));
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
process.on('uncaughtException', (error) => log('error', 'the bucket service erred', { error: error.stack }));

async function serve(app: string, directory: string, door: SocketHandle): Promise<void> {
  if (servers.has(app)) return;
  const room = new Room(directory, options);
  servers.set(app, await AppServer.listen(door, new KeptOpen(directory), room, options));
}

async function close(app: string): Promise<void> {
  const server = servers.get(app);
  servers.delete(app);
  await server?.close();
}

function reply(reply: BucketReply): void {
  process.send?.(reply);
}
