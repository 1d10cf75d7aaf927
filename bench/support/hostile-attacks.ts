// The attacks of `npm run bench -- hostile`: what an app, a build, a push or a stranger may do to the others.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { fetch, WebSocket } from 'undici';
import { type Cellar, LOCALHOST } from '../../test/support/e2e/cellar.ts';
import { ENDLESS_QUERY } from '../../test/support/storage/endless-query.ts';
import { gitAttacks } from './hostile-git.ts';

/** The arguments of an attacker. */
export interface Target {
  api: string;
  edgePort: number;
  /** A working copy to push, and its remote; empty for attacks that push nothing. */
  work: string;
  remote: string;
  /** URL of a query over the API, with its token; only for attacks by queries. */
  query?: { url: string; token: string };
}

/** Arguments that an attack prepares itself. */
type Prepared = Partial<Omit<Target, 'api' | 'edgePort'>>;

export interface Attack {
  name: string;
  /** Whether it uses a whole core of the machine by design. */
  burnsCore?: boolean;
  /** Runs before the quiet figures are measured. */
  prepare?: (cellar: Cellar) => Promise<Prepared>;
  /** Runs for ever, in a process of its own that is killed at the end. */
  attack: (target: Target) => Promise<void>;
  end?: (cellar: Cellar) => Promise<void>;
}

const run = promisify(execFile);
const random = () => Math.random().toString(36).slice(2);

export const attacks: Attack[] = [
  app('loops for ever', '/loop', 4, { burnsCore: true }),
  {
    ...app('loops behind a WebSocket', '/socket', 1, { burnsCore: true }),
    attack: async ({ edgePort }) => {
      const socket = new WebSocket(`ws://bad-socket.localhost:${edgePort}/socket`, { dispatcher: LOCALHOST });
      socket.addEventListener('open', () => socket.send('go'));
      await new Promise(() => {});
    },
  },
  app('takes buffers without end', '/memory', 4, { burnsCore: true }),
  app('takes heap without end', '/heap', 4, { burnsCore: true }),
  app('logs without end', '/log', 1, { burnsCore: true }),
  app('lets 1,000 requests wait, and asks again at once', '/hang', 1_000, { burnsCore: true }),
  app('sends as much as eight clients take', '/endless', 8, { burnsCore: true }),
  app('writes to its storage without end', '/write', 1, { burnsCore: true }),
  app('uses its bucket 300 times at once, without end', '/bucket', 1, { burnsCore: true }),

  queries(),

  build(
    'burns every core',
    `node -e "require('os').cpus().forEach(() => new (require('worker_threads').Worker)('for(;;);', {eval: true}))"`,
    true,
  ),
  build(
    'starts processes without end',
    `node -e "for(;;) try { require('child_process').spawn('sleep', ['60']).on('error', () => {}) } catch {}"`,
    true,
  ),
  build('prints without end', 'yes', true),
  build(
    'takes memory without end',
    `node -e "const kept = []; for(;;) kept.push(Buffer.alloc(2 ** 24, 1))"`,
    true,
  ),
  build(
    'writes files without end',
    `node -e "for(let i = 0;; i++) require('fs').writeFileSync('f' + i, '')"`,
    true,
  ),
  build('puts a pipe in the place of its lock file', 'rm -f package-lock.json && mkfifo package-lock.json'),
  pushed(
    'looping',
    'a release that loops at its start',
    { 'index.js': 'for (;;);\nexport default { fetch: () => new Response() };' },
    true,
  ),
  pushed('headers', 'a push of 100 MB of _headers', {
    'index.html': 'hello',
    _headers: '/*\n  x-header: 1\n'.repeat(6_500_000),
  }),
  pushed(
    'wide',
    'a push of 20,000 files',
    Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`files/${n % 100}/${n}.txt`, ''])),
  ),

  stranger('500 heads byte by byte', async ({ edgePort }) => {
    const slow = async () => {
      const socket = connect(edgePort, '127.0.0.1');
      socket.on('error', () => {});
      await once(socket, 'connect');
      const head = `GET / HTTP/1.1\r\nhost: good.localhost\r\n${'x-filler: 0123456789\r\n'.repeat(50)}`;
      for (const byte of head) {
        socket.write(byte);
        await sleep(10);
      }
    };
    await endlessly(500, slow);
  }),
  stranger(
    'connections opened and closed',
    ({ edgePort }) =>
      endlessly(16, async () => {
        const socket = connect(edgePort, '127.0.0.1');
        await once(socket, 'connect');
        socket.destroy();
      }),
    true,
  ),
  stranger(
    'unknown hosts',
    ({ edgePort }) => endlessly(16, () => get(edgePort, `no-${random()}`, '/')),
    true,
  ),
  stranger(
    'wrong tokens',
    ({ api }) =>
      endlessly(16, () =>
        fetch(`${api}/v1/apps`, { headers: { authorization: `Bearer cellar_${random()}` } }).then((answer) =>
          answer.text(),
        ),
      ),
    true,
  ),
  stranger(
    'wrong git passwords',
    ({ edgePort }) =>
      endlessly(16, () =>
        fetch(`http://git.localhost:${edgePort}/good/info/refs?service=git-upload-pack`, {
          dispatcher: LOCALHOST,
          headers: { authorization: `Basic ${btoa(`git:cellar_${random()}`)}` },
        }).then((answer) => answer.text()),
      ),
    true,
  ),

  ...gitAttacks,
];

/** Runs this number of callers at once for ever. Each calls again when it is answered. */
async function endlessly(callers: number, call: () => Promise<unknown>): Promise<void> {
  const caller = async () => {
    for (;;) await call().catch(() => sleep(1));
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

async function get(edgePort: number, slug: string, path: string): Promise<void> {
  const url = `http://${slug}.localhost:${edgePort}${path}`;
  const response = await fetch(url, { dispatcher: LOCALHOST, signal: AbortSignal.timeout(120_000) });
  for await (const _ of response.body ?? []);
}

/** Returns an attack with an app of its own, deleted at its end. */
function app(name: string, path: string, callers: number, more: Partial<Attack> = {}): Attack {
  const slug = `bad${path.replace('/', '-')}`;
  let id = '';
  return {
    name: `an app ${name}`,
    prepare: async (cellar) => {
      id = await cellar.deploy(slug, 'hostile');
      return {};
    },
    attack: ({ edgePort }) => endlessly(callers, () => get(edgePort, slug, path)),
    end: async (cellar) => void (await cellar.call('DELETE', `/v1/apps/${id}`)),
    ...more,
  };
}

/** Returns an attack by queries of an app's own database that never end by themselves. The host's readers have a timeout. */
function queries(): Attack {
  let id = '';
  return {
    name: 'an account with 100 endless queries',
    burnsCore: true,
    prepare: async (cellar) => {
      id = await cellar.deploy('bad-queries', 'guestbook');
      const url = `${cellar.api}/v1/apps/${id}/storage/d1/DB?sql=${encodeURIComponent(ENDLESS_QUERY)}`;
      return { query: { url, token: cellar.token } };
    },
    attack: ({ query }) =>
      endlessly(100, async () => {
        const headers = { authorization: `Bearer ${query!.token}` };
        const { status, body } = await fetch(query!.url, { headers, signal: AbortSignal.timeout(120_000) });
        await body?.cancel();
        // A refusal is cheap. The client waits before it retries.
        if (status === 503) await sleep(100);
      }),
    end: async (cellar) => void (await cellar.call('DELETE', `/v1/apps/${id}`)),
  };
}

/** Returns an attack that pushes a project again and again. */
function pushed(slug: string, name: string, files: Record<string, string>, burnsCore = false): Attack {
  let id = '';
  return {
    name,
    burnsCore,
    prepare: async (cellar) => {
      id = await cellar.create(slug);
      const work = await cellar.checkout('hello');
      for (const [file, text] of Object.entries(files)) {
        mkdirSync(join(work, file, '..'), { recursive: true });
        writeFileSync(join(work, file), text);
      }
      await cellar.commit(work, 'hostile');
      return { work, remote: cellar.remote(slug) };
    },
    attack: async ({ work, remote }) => {
      const git = (...words: string[]) => run('git', words, { cwd: work }).catch(() => {});
      for (;;) {
        await git(
          '-c',
          'user.name=Eve',
          '-c',
          'user.email=eve@example.com',
          'commit',
          '--quiet',
          '--allow-empty',
          '--message=again',
        );
        await git('push', '--quiet', remote, 'HEAD:main');
      }
    },
    end: async (cellar) => void (await cellar.call('DELETE', `/v1/apps/${id}`)),
  };
}

function build(what: string, command: string, burnsCore = false): Attack {
  const manifest = { private: true, main: 'index.js', scripts: { build: command } };
  const files = { 'package.json': JSON.stringify(manifest) };
  return pushed(`build-${what.split(' ')[0]}-${what.length}`, `a build that ${what}`, files, burnsCore);
}

function stranger(name: string, attack: Attack['attack'], burnsCore = false): Attack {
  return { name: `a stranger: ${name}`, burnsCore, attack };
}
