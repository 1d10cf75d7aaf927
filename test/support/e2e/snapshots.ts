// Takes and restores snapshots as an operator does.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { COMPILE_CACHE_ENV } from '../compiled.ts';
import type { Cellar } from './cellar.ts';

/** Makes a temporary directory for snapshots, removed when it is disposed. */
export function snapshotDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'cellar-snapshots-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export async function snapshot(cellar: Cellar): Promise<{ key: string; bytes: number }> {
  const { status, body } = await cellar.call('POST', '/v1/admin/snapshot');
  assert.equal(status, 201, JSON.stringify(body));
  assert.equal((await cellar.call('GET', '/v1/admin/stats')).body.host.snapshots.problem, null);
  return body;
}

/** Restores a whole Cellar with `scripts/restore.ts`. */
export function restore(id: string, data: string, environment: Record<string, string>, more: string[] = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/restore.ts', id, ...more], {
    env: { PATH: process.env.PATH ?? '', RUNNER_DATA_DIR: data, ...COMPILE_CACHE_ENV, ...environment },
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { status, stdout, stderr };
}

/**
 * Like `restore`, but asynchronous, because this process may serve the bucket at the same time.
 * @throws {Error} when the restore fails; the message is the output
 */
export async function restoreFrom(
  id: string,
  data: string,
  environment: Record<string, string>,
): Promise<void> {
  await promisify(execFile)(process.execPath, ['scripts/restore.ts', id], {
    env: { PATH: process.env.PATH ?? '', RUNNER_DATA_DIR: data, ...COMPILE_CACHE_ENV, ...environment },
    timeout: 120_000,
  });
}

/** Calls an RPC method. Returns its result, or the data of its error. */
export async function rpc(cellar: Cellar, method: string, params: object) {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  return (body.result ?? body.error.data) as Record<string, string>;
}
