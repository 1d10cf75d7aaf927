// Writes releases without a build, starts them, and calls their processes.
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import type { Release } from '../../../bundler/release.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { type CellOptions, startCell, workerdPath } from '../../../runtime/fleets/process/start-cell.ts';

export const workerd = workerdPath();

/** Writes a release with at most one ES module and other `files`. `fields` override those of `release.json`. */
export async function makeRelease(
  directory: string,
  code: string | null,
  fields: Partial<Release> = {},
  files: Record<string, string | Buffer> = {},
): Promise<{ deployId: string; directory: string; release: Release }> {
  const release: Release = {
    format: 1,
    deployId: directory.split('/').at(-1)!,
    sha: '0'.repeat(40),
    worker: code === null ? null : entry('app.js'),
    vars: {},
    assets: null,
    classes: [],
    durableObjects: [],
    databases: [],
    namespaces: [],
    ...fields,
  };
  const all = {
    ...files,
    ...(code === null ? {} : { 'app.js': code }),
    'release.json': JSON.stringify(release),
  };
  for (const [path, content] of Object.entries(all)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), content);
  }
  return { deployId: release.deployId, directory, release };
}

export function entry(path: string): NonNullable<Release['worker']> {
  return {
    modules: [{ name: path, type: 'esm', path }],
    compatibilityDate: '2026-10-01',
    compatibilityFlags: [],
  };
}

/** Returns the options with which a fleet starts the release in `directory`, with its state below `root`. */
export async function cellOptions(
  root: string,
  directory: string,
  cacheMb = 0,
  timesCalls = true,
): Promise<CellOptions> {
  const files = new CellFilesCache(join(root, 'run'), 512, {}, undefined, false, cacheMb, timesCalls);
  const { config, sockets, hasCache } = await files.of(directory);
  return {
    workerd,
    user: null,
    memoryMb: 512,
    directory,
    config,
    disks: {
      do: join(root, 'data/do'),
      kv: join(root, 'data/kv'),
      ...(hasCache && { cache: join(root, 'run/cache') }),
    },
    runDirectory: join(root, 'run'),
    sockets,
    ownsStorage: true,
    output: lineSink(() => {}),
  };
}

/** Starts a release as a fleet does, with its state below `root`. */
export async function startRelease(
  root: string,
  directory: string,
  onLine: (line: string) => void = () => {},
): Promise<Cell> {
  return startCell({ ...(await cellOptions(root, directory)), output: lineSink(onLine) });
}

/** Sends one request over a unix socket. */
export function call(
  socketPath: string,
  path: string,
  options: { method?: string; body?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; text: string; headers: NodeJS.Dict<string | string[]> }> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', headers = {} } = options;
    const sent = request({ socketPath, path, method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: response.statusCode!, text, headers: response.headers });
      });
    });
    sent.on('error', reject);
    sent.end(options.body);
  });
}
