// The baseline of `npm run bench -- hostile`: the good app run by hand, as workerd behind HAProxy, on the same machine.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cellOptions, makeRelease } from '../../test/support/fleets/release.ts';
import { end, start } from './by-hand.ts';
import { HAPROXY, startProxy } from './proxies.ts';

/** The good app, the same as in the Cellar beside it. */
const GOOD = new URL('../../test/apps/hello/index.js', import.meta.url);

/** The good app, served without Cellar. `port` is that of HAProxy in front of it. */
export interface ByHand extends AsyncDisposable {
  port: number;
}

/** Starts the good app by hand. @throws {Error} without HAProxy */
export async function startByHand(): Promise<ByHand> {
  await using started = new AsyncDisposableStack();
  const root = mkdtempSync(join(tmpdir(), 'cellar-floor-'));
  started.defer(() => rmSync(root, { recursive: true, force: true }));
  const release = await makeRelease(join(root, 'release'), readFileSync(GOOD, 'utf8'));
  const cell = await start(await cellOptions(root, release.directory));
  started.defer(() => end(cell.child));
  const proxy = started.use(await startProxy(HAPROXY, `127.0.0.1:${cell.port}`));
  const ends = started.move();
  return { port: proxy.port, [Symbol.asyncDispose]: () => ends.disposeAsync() };
}
