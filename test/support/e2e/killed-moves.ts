// Kills the host at random moments of an app's moves between the machine and the bucket.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { startS3 } from '../bucket/s3.ts';
import { bucketSettings } from '../bucket/settings.ts';
import { Cellar } from './cellar.ts';
import { MOVING_APP, movingData } from './moving-app.ts';
import { rpcOf } from './rpc.ts';

/**
 * In each round moves an app, and kills the host during the move. Before the first round and after the last one, moves the
 * app in both directions without a kill.
 * @throws {AssertionError} when data is missing, or a move without a kill fails
 */
export async function killDuringMoves(
  rounds: number,
  done: (round: string) => void = () => {},
): Promise<void> {
  await using store = await startS3();
  await using cellar = await new Cellar(bucketSettings(store.place('of/cellar/'))).start();
  const id = await cellar.deploy('shop', 'hello', MOVING_APP);
  const stored: number[] = [];
  const storeNext = async () => {
    const n = stored.length + 1;
    assert.equal((await cellar.get('shop', `/?n=${n}`, { method: 'POST' })).status, 200);
    stored.push(n);
  };
  const requireData = async (when: string) => {
    const { status, text } = await cellar.get('shop');
    assert.equal(status, 200, `${when}: ${text}`);
    const { jobs: _, ...data } = JSON.parse(text);
    assert.deepEqual(data, movingData(...stored), when);
  };
  const placeOf = async () => (await cellar.app(id)).storage;
  const next = async () => ((await placeOf()) === 'local' ? 'bucket' : 'local');
  const moveWhole = async () => {
    const to = await next();
    const begun = performance.now();
    const moved = await rpcOf(cellar)('apps.move', { id, to });
    const ms = performance.now() - begun;
    assert.equal(moved.moved, true, JSON.stringify(moved));
    assert.equal(await placeOf(), to);
    await requireData(`after the move to ${to}, which took ${ms} ms`);
    await storeNext();
    return ms;
  };
  await storeNext();
  const moveMs = (await moveWhole()) + (await moveWhole());
  for (let round = 0; round < rounds; round++) {
    const to = await next();
    const killedAfterMs = Math.round(Math.random() * (moveMs / 2));
    const moving: Promise<unknown> = rpcOf(cellar)('apps.move', { id, to }).catch(() => null);
    await sleep(killedAfterMs);
    await cellar.stop('SIGKILL');
    await moving;
    await cellar.start();
    const when = `killed ${killedAfterMs} ms after a move to ${to} began`;
    await requireData(when);
    await storeNext();
    done(when);
  }
  await moveWhole();
  await moveWhole();
}
