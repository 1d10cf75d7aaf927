// The app of `bench/cell.ts` in Miniflare. `node bench/support/miniflare-app.ts SCRATCH DIRECTORY` starts it and sends one
// request. Then the program prints `answered` and the pid of workerd. It ends with its standard input.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';

/**
 * Starts an instance with the bindings of the bench's app and waits for its first 200.
 * @param scratch directory of its storage
 * @param directory directory of the app's release
 */
export async function startMiniflare(
  scratch: string,
  directory: string,
): Promise<{ instance: Miniflare; pids: number[] }> {
  const before = new Set(children());
  const options = convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    resourcePersistencePath: scratch,
    name: 'app',
    modulesRoot: directory,
    modules: [{ type: 'ESModule', path: join(directory, 'app.js') }],
    compatibilityDate: '2026-10-01',
    bindings: { TITLE: 'Guestbook' },
    d1Databases: { DB: 'main' },
    kvNamespaces: { KV: 'main' },
    durableObjects: { VISITS: { className: 'Visits', useSQLite: true } },
    assets: {
      directory: join(directory, 'public'),
      binding: 'ASSETS',
      routerConfig: { has_user_worker: true },
    },
  });
  const instance = new Miniflare(options);
  const response = await fetch(new URL('/entries', await instance.ready));
  const text = await response.text();
  if (response.status !== 200) throw new Error(`Miniflare answered ${response.status}: ${text}`);
  return { instance, pids: children().filter((pid) => !before.has(pid)) };
}

/** Returns the child processes of this process. */
function children(): number[] {
  const threads = readdirSync('/proc/self/task');
  const lists = threads.map((thread) => readFileSync(`/proc/self/task/${thread}/children`, 'utf8'));
  return lists.join(' ').split(/\s+/).filter(Boolean).map(Number);
}

if (import.meta.main) {
  const { instance, pids } = await startMiniflare(process.argv[2]!, process.argv[3]!);
  console.log(`answered ${pids.join(' ')}`);
  process.stdin.resume().on('end', () => void instance.dispose().then(() => process.exit(0)));
}
