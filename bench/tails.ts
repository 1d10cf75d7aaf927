// The cost of `tail_consumers`: the same app in two processes, one with a tail Worker, which here answers at once.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Release } from '../bundler/release.ts';
import { CellFilesCache } from '../runtime/fleets/process/cell-files.ts';
import { makeRelease } from '../test/support/fleets/release.ts';
import { effort } from './support/bench-scale.ts';
import type { Subject } from './support/by-hand.ts';
import { gatewayRequest } from './support/gateway-request.ts';
import { compare, printHead } from './support/pairs.ts';

const KINDS: Record<string, string> = {
  'a plain answer': `export default { async fetch(request) { return new Response('hello ' + request.url); } };`,
  'one line of console.log': `export default { async fetch(request) { console.log('asked for', request.url); return new Response('hello'); } };`,
};
const ASKED = gatewayRequest();
/** Share of the usual number of requests. */
const SHARE = 0.25;

/** Prints the CPU time of a request without and with a tail, and their ratio, for each kind of app. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  const consumer = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(204).end());
  });
  try {
    const serviceSocket = join(root, 'consumer.sock');
    await once(consumer.listen(serviceSocket), 'listening');
    printHead('without, with');
    const kinds = Object.entries(KINDS);
    for (const [index, [kind, code]] of kinds.slice(0, effort(kinds.length, 1)).entries()) {
      const subject = async (name: string, fields: Partial<Release>): Promise<Subject> => {
        const directory = join(root, String(index), name);
        await makeRelease(join(directory, 'b'.repeat(16)), code, fields);
        const release = join(directory, 'b'.repeat(16));
        const { config } = await new CellFilesCache(join(directory, 'run'), 512, { serviceSocket }).of(
          release,
        );
        return { directory: release, config };
      };
      const subjects = [
        await subject('without', {}),
        await subject('with', { tailConsumers: ['tail'] }),
      ] as const;
      await compare(kind, [...subjects], ASKED, SHARE);
    }
  } finally {
    consumer.close();
    consumer.closeAllConnections();
    rmSync(root, { recursive: true, force: true });
  }
}
