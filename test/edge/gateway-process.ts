// A gateway alone in a process, to be measured: sends every request to the unix socket named by the first argument
// and prints its port.
import type { Backend } from '../../runtime/edge/backend.ts';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { Upstream } from '../../runtime/edge/upstream.ts';

const socketPath = process.argv[2];
if (socketPath === undefined) throw new Error('usage: gateway-process.ts <unix socket>');
const upstream = new Upstream({ socketPath });
const backend: Backend = { site: 'app', admit: () => ({ kind: 'forward', upstream }) };
const gateway = new Gateway({ resolve: () => ({ kind: 'proxy', backend }), holdTimeoutMs: 1_000 });
console.log(await gateway.listen(0, '127.0.0.1'));
