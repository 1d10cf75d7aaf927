// The cost of the capture of errors and printed lines by the entry module: the same app behind that module, and without it.
// Measured are CPU time per request, and memory after the same number of requests. Both get what the gateway sends for a
// request of wrk, including `traceparent`: the entry module makes one only when it is missing.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Release } from '../bundler/release.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort, words } from './support/bench-scale.ts';
import type { Subject } from './support/by-hand.ts';
import { gatewayRequest } from './support/gateway-request.ts';
import { compare, printHead } from './support/pairs.ts';

/** Maximum cost of a request with the capture, as a multiple of its cost without. */
const TARGET = 1.08;

const ROOM = `
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
export class Room extends DurableObject {
  #n = 0;
  async add() { return ++this.#n; }
  async fetch() { return new Response(String(++this.#n)); }
}`;
const KINDS: Record<string, string> = {
  'an object, async fetch': `export default { async fetch(request) { return new Response('hello ' + request.url); } };`,
  'a class, async fetch': `${ROOM}
export default class extends WorkerEntrypoint { async fetch(request) { return new Response('hello ' + request.url); } }`,
  'an object that awaits ten times': `export default { async fetch(request) {
  for (let i = 0; i < 10; i++) await scheduler.wait(0);
  return new Response('hello ' + request.url);
} };`,
  'a Durable Object by RPC': `${ROOM}
export default { async fetch(request, env) { return new Response(await env.ROOM.getByName('one').add()); } };`,
  'a Durable Object by fetch': `${ROOM}
export default { fetch: (request, env) => env.ROOM.getByName('one').fetch('http://room/') };`,
  'one line of console.log': `export default { async fetch(request) { console.log('asked for', request.url); return new Response('hello'); } };`,
};
/** The entry module of an app without capture. */
const BARE_ENTRY = `
import { WorkerEntrypoint } from 'cloudflare:workers';
export * from './app.js';
export { default } from './app.js';
export class CellarState extends WorkerEntrypoint { fetch() { return new Response('0'); } }
export class CellarCache extends WorkerEntrypoint {}
`;

const ASKED = gatewayRequest();

/** Prints both costs of each kind of app, and their ratio. An argument limits the kinds to those whose name contains it. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  try {
    printHead('bare, entry');
    const [wanted = ''] = words;
    const kinds = Object.entries(KINDS).filter(([kind]) => kind.includes(wanted));
    for (const [index, [kind, code]] of kinds.slice(0, effort(kinds.length, 2)).entries())
      await compare(kind, await configs(join(root, String(index)), code), ASKED);
    console.log(`target: a ratio of at most ${TARGET}`);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function configs(root: string, code: string): Promise<[Subject, Subject]> {
  const directory = join(root, 'release');
  const room = code.includes('class Room');
  const fields: Partial<Release> = room
    ? {
        exports: ['Room', 'default'],
        classes: [{ className: 'Room', storageId: 'room', sql: true }],
        durableObjects: [{ binding: 'ROOM', className: 'Room' }],
      }
    : { exports: ['default'] };
  await makeRelease(directory, code, fields);
  const { config } = await cellOptions(root, directory);
  const bare = `${dirname(config)}-bare`;
  cpSync(dirname(config), bare, { recursive: true });
  writeFileSync(join(bare, 'cellar-entry.js'), BARE_ENTRY);
  return [
    { directory, config: join(bare, 'cell.capnp') },
    { directory, config },
  ];
}
