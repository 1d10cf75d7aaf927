// The cost of timing the calls that requests wait for: the same app with and without it. Measured are CPU time per request, and
// memory after the same number of requests.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Release } from '../bundler/release.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort, words } from './support/bench-scale.ts';
import type { Subject } from './support/by-hand.ts';
import { gatewayRequest } from './support/gateway-request.ts';
import { compare, printHead } from './support/pairs.ts';

/** Maximum cost of a request with timed calls, as a multiple of its cost without. */
const TARGET = 1.03;

/** By kind: the code of `fetch`, and the share of the usual number of requests. */
const KINDS: Record<string, [code: string, share: number]> = {
  'no calls': ["return new Response('hello');", 1],
  'one query of D1': ["return Response.json(await env.DB.prepare('SELECT 1 AS one').all());", 0.1],
  'one read of KV': ["return new Response(await env.KV.get('a'));", 0.1],
  'a Durable Object by RPC': ["return new Response(await env.ROOM.getByName('one').add());", 0.5],
  'ten queries of D1': [
    "for (let i = 0; i < 10; i++) await env.DB.prepare('SELECT 1 AS one').all(); return new Response('x');",
    0.02,
  ],
};
const FIELDS: Partial<Release> = {
  exports: ['Room', 'default'],
  classes: [{ className: 'Room', storageId: 'room', sql: true }],
  durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  databases: [{ binding: 'DB', name: 'db', migrations: [], storageId: 'db' }],
  namespaces: [{ binding: 'KV', storageId: 'kv' }],
};

/** Prints both costs of each kind of app, and their ratio. An argument limits the kinds to those whose name contains it. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  try {
    printHead('off, on');
    const [wanted = ''] = words;
    const kinds = Object.entries(KINDS).filter(([kind]) => kind.includes(wanted));
    for (const [index, [kind, [code, share]]] of kinds.slice(0, effort(kinds.length, 2)).entries())
      await compare(kind, await subjects(join(root, String(index)), code), gatewayRequest(), share);
    console.log(`target: a ratio of at most ${TARGET}`);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function subjects(root: string, body: string): Promise<[Subject, Subject]> {
  const directory = join(root, 'release');
  const code = `
import { DurableObject } from 'cloudflare:workers';
export class Room extends DurableObject { #n = 0; async add() { return ++this.#n; } }
export default { async fetch(request, env) { ${body} } };`;
  await makeRelease(directory, code, FIELDS);
  const off = await cellOptions(join(root, 'off'), directory, 0, false);
  const on = await cellOptions(join(root, 'on'), directory, 0, true);
  return [
    { directory, config: off.config },
    { directory, config: on.config },
  ];
}
