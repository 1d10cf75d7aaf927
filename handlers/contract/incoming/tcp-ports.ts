// The TCP ports whose connections an app's `connect()` handler gets.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Maximum ports of the apps of one account. */
export const TCP_PORT_LIMIT = 20;

const port = z.int().min(1).max(65_535);

export const TcpPort = z.strictObject({ port: z.int(), app_id: id, created_at: time });
export type TcpPort = z.output<typeof TcpPort>;

export const tcpPorts = [
  operation({
    name: 'tcp.ports.list',
    summary: 'Lists the TCP ports of an app',
    method: 'GET',
    path: '/v1/apps/:id/tcp/ports',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(TcpPort),
  }),
  operation({
    name: 'tcp.ports.set',
    summary: "Passes connections to a TCP port of RUNNER_TCP_PORTS to the app's connect() handler",
    method: 'POST',
    path: '/v1/apps/:id/tcp/ports',
    needs: 'admin',
    input: z.strictObject({ id: reference, port }),
    output: TcpPort,
    status: 201,
    errors: ['tcp_port_taken', 'quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'tcp.ports.delete',
    summary: 'Removes a TCP port from an app; Cellar then resets new connections to the port',
    method: 'DELETE',
    path: '/v1/apps/:id/tcp/ports/:port',
    needs: 'admin',
    input: z.strictObject({ id: reference, port }),
    output: nothing,
    errors: ['tcp_port_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
