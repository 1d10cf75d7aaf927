// The TCP ports of apps. The operator allows a range. A port belongs to the first app that asks for it.
import { findTcpPort, listTcpPorts, type TcpPortRow } from '../../sqlite/control/apps/tcp-ports.ts';
import { TCP_PORT_LIMIT } from '../contract/incoming/tcp-ports.ts';
import { Problem } from '../problem.ts';
import { invalidInput } from '../transports/validate.ts';
import { changeApp } from './apps/apps.ts';
import { listAnswer, pageAfter } from './paging.ts';
import type { Service } from './types.ts';

const list: Service<'tcp.ports.list'> = async ({ reads }, { id, ...page }) => {
  const name = `tcp.ports.list ${id}`;
  return listAnswer(name, await listTcpPorts(reads, id, pageAfter(name, page)), (row) => row);
};

const set: Service<'tcp.ports.set'> = async (context, { id, port }) => {
  requireAllowed(context.env.TCP_PORTS, port);
  const change = { kind: 'tcp_port_set', port, limit: TCP_PORT_LIMIT } as const;
  const { changed } = await changeApp(context, id, change);
  if (changed !== null) return changed as unknown as TcpPortRow;
  if ((await findTcpPort(context.db, port)) !== null)
    throw new Problem(
      'tcp_port_taken',
      `Another app has port ${port}; choose another of ${context.env.TCP_PORTS}.`,
    );
  throw new Problem(
    'quota_exceeded',
    `The apps of an account may have at most ${TCP_PORT_LIMIT} TCP ports; delete one first (tcp.ports.delete).`,
  );
};

const remove: Service<'tcp.ports.delete'> = async (context, { id, port }) => {
  const { changed } = await changeApp(context, id, { kind: 'tcp_port_delete', port });
  if (changed === null) throw new Problem('tcp_port_not_found', `The app has no TCP port ${port}.`);
  return null;
};

/**
 * Checks that the operator allows a port.
 * @param ports the setting, such as `20000-20100`
 * @throws {Problem} `invalid_input`
 */
function requireAllowed(ports: string, port: number): void {
  const [first, last] = ports.split('-').map(Number);
  if (ports !== '' && port >= first! && port <= last!) return;
  const message =
    ports === ''
      ? 'is not available: this Cellar accepts no TCP connections until its operator sets RUNNER_TCP_PORTS'
      : `must be one of ${ports}, the ports that the operator allows (RUNNER_TCP_PORTS)`;
  throw invalidInput([{ path: 'port', message }]);
}

export const tcpPortServices = {
  'tcp.ports.list': list,
  'tcp.ports.set': set,
  'tcp.ports.delete': remove,
};
