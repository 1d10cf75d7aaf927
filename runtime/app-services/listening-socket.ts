// The socket at which a service of the host answers one app. The host holds it, so that calls made while the service is not
// there wait for the next process instead of failing.
import { chmodSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import net, { type Server } from 'node:net';
import { join } from 'node:path';

/** What Node hands to a child: a socket that has a path. It listens only once a process says so, and then goes on. */
export interface SocketHandle {
  readonly fd: number;
  close(): void;
}

/**
 * Makes a socket at `path`, in a directory that others may own: it is made in the host's own directory `workshop` first,
 * where no link can lead its rights elsewhere. Whoever comes to its path may connect.
 */
export function makeListeningSocket(workshop: string, path: string): SocketHandle {
  mkdirSync(workshop, { recursive: true, mode: 0o700 });
  const made = join(workshop, 's');
  rmSync(made, { force: true });
  const handle = bind(made);
  chmodSync(made, 0o666);
  renameSync(made, path);
  return handle;
}

/** Node's own way for `node:cluster`: a `Server` that is listened to would take the connections in this process. */
function bind(path: string): SocketHandle {
  const { _createServerHandle: create } = net as unknown as {
    _createServerHandle: (path: string, port: -1, family: -1) => SocketHandle | number;
  };
  const handle = create(path, -1, -1);
  if (typeof handle === 'number') throw new Error(`no socket could be made at ${path} (${handle})`);
  return handle;
}

/** As `ChildProcess.send` takes it, whose type knows only some of what it sends. */
export function sendable(handle: SocketHandle): Server {
  return handle as unknown as Server;
}
