// The listening socket of a service for one app. The host holds it, so that calls during a restart of the service wait for
// the next process instead of failing.
import { chmodSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';

/** A bound Unix socket that Node can send to a child process. Once a process listens on it, it stays listening. */
export interface SocketHandle {
  readonly fd: number;
  close(): void;
}

/**
 * Makes a socket at `path`, in a directory that another user may own. Makes it in the host's own directory `workshop` first:
 * nobody can redirect the change of its mode with a symbolic link there. Any process that reaches the path may connect.
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

/** Uses the internal function of `node:cluster`, because a `Server` would accept the connections in this process. */
function bind(path: string): SocketHandle {
  const { _createServerHandle: create } = net as unknown as {
    _createServerHandle: (path: string, port: -1, family: -1) => SocketHandle | number;
  };
  const handle = create(path, -1, -1);
  if (typeof handle === 'number') throw new Error(`no socket could be made at ${path} (${handle})`);
  return handle;
}
