// Attacks by git: a push, a fetch or a comparison of few bytes that makes git use much memory.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { deflateSync, gzipSync } from 'node:zlib';
import { fetch } from 'undici';
import { type Cellar, LOCALHOST } from '../../test/support/e2e/cellar.ts';
import type { Attack, Target } from './hostile-attacks.ts';

const CALLERS = 5;
const NONE = '0'.repeat(40);
const NEW = 'b'.repeat(40);
const CAPABILITIES = '\0 report-status side-band-64k';
const COMMIT_BYTES = 600 * 2 ** 20;
/** Object type of a commit in a pack. */
const COMMIT = 1;
/** Subfolders of each folder, and levels of folders: few distinct objects, 35 million paths. */
const NESTED = { width: 12, levels: 7 };

export const gitAttacks: Attack[] = [
  posted('ref names', 'git-receive-pack', 'gzip', () => {
    const names = Array.from({ length: 2_000 }, (_, n) => command(`refs/heads/${n}${'x'.repeat(60_000)}`));
    return gzipSync(`${command(`refs/heads/first${CAPABILITIES}`)}${names.join('')}0000`);
  }),
  posted('have lines', 'git-upload-pack', 'gzip', ({ work }) => {
    // Git reads the `have` lines only for a commit that it has.
    const want = execFileSync('git', ['rev-parse', 'before'], { cwd: work, encoding: 'utf8' }).trim();
    const have = Array.from({ length: 1_000_000 }, (_, n) =>
      line(`have ${n.toString(16).padStart(40, '0')}\n`),
    );
    return gzipSync(
      `${line(`want ${want} multi_ack_detailed no-done\n`)}0000${have.join('')}${line('done\n')}`,
    );
  }),
  posted('a packed commit of 600 MiB', 'git-receive-pack', undefined, () => {
    const commands = `${command(`refs/heads/large${CAPABILITIES}`)}0000`;
    return Buffer.concat([Buffer.from(commands), packOfCommit()]);
  }),
  {
    ...app('nested folders that are compared', 'nested'),
    attack: async (target) => {
      const { key } = remoteOf(target);
      const url = `${target.api}/v1/apps/bad-nested/diff?from=before&to=later`;
      const headers = { authorization: `Bearer ${key}` };
      await endlessly(async () => void (await (await fetch(url, { headers })).text()));
    },
  },
];

/** Returns an attack that posts a body to git again and again, several at a time. */
function posted(
  name: string,
  service: string,
  coding: string | undefined,
  make: (target: Target) => Buffer<ArrayBuffer>,
): Attack {
  return {
    ...app(name, name.replaceAll(/\W/g, '-').toLowerCase()),
    attack: async (target) => {
      const { origin, path, key } = remoteOf(target);
      const body = make(target);
      const headers = {
        authorization: `Basic ${btoa(`git:${key}`)}`,
        'content-type': `application/x-${service}-request`,
        ...(coding && { 'content-encoding': coding }),
      };
      const options = { method: 'POST', dispatcher: LOCALHOST, headers, body };
      await endlessly(async () => void (await (await fetch(`${origin}${path}/${service}`, options)).text()));
    },
  };
}

/** Returns the parts of an attack with an app of its own and two commits to compare. The app is deleted at its end. */
function app(name: string, slug: string): Omit<Attack, 'attack'> {
  let id = '';
  return {
    name: `git: ${name}`,
    burnsCore: true,
    prepare: async (cellar) => {
      id = await cellar.create(`bad-${slug}`);
      const work = await cellar.checkout('hello');
      const remote = cellar.remote(`bad-${slug}`);
      for (const branch of ['before', 'later']) nested(work, branch);
      await cellar.git(work, 'push', '--quiet', remote, 'before', 'later');
      return { work, remote };
    },
    end: async (cellar: Cellar) => void (await cellar.call('DELETE', `/v1/apps/${id}`)),
  };
}

/** Makes a branch with many references to the same folders, in many levels. */
function nested(work: string, branch: string): void {
  const git = (words: string[], input = '') => {
    const identity = ['-c', 'user.name=Eve', '-c', 'user.email=eve@example.com'];
    return execFileSync('git', [...identity, ...words], { cwd: work, input, encoding: 'utf8' }).trim();
  };
  let entry = `100644 blob ${git(['hash-object', '-w', '--stdin'], branch)}`;
  for (let level = 0; level < NESTED.levels; level++) {
    const entries = Array.from({ length: NESTED.width }, (_, n) => `${entry}\tfolder-${n}\n`);
    entry = `040000 tree ${git(['mktree'], entries.join(''))}`;
  }
  git(['branch', branch, git(['commit-tree', '-m', branch, entry.split(' ')[2]!])]);
}

/** Makes a pack of one commit, mostly zeros, which compress well. */
function packOfCommit(): Buffer {
  const header = [(COMMIT << 4) | (COMMIT_BYTES & 15)];
  for (let rest = COMMIT_BYTES >> 4; rest > 0; rest >>= 7) {
    header[header.length - 1]! |= 128;
    header.push(rest & 127);
  }
  const head = Buffer.from([...Buffer.from('PACK'), 0, 0, 0, 2, 0, 0, 0, 1, ...header]);
  const pack = Buffer.concat([head, deflateSync(Buffer.alloc(COMMIT_BYTES))]);
  return Buffer.concat([pack, createHash('sha1').update(pack).digest()]);
}

function command(ref: string): string {
  return line(`${NONE} ${NEW} ${ref}`);
}

/** Returns a pkt-line: its length as four hexadecimal digits, and its text. */
function line(text: string): string {
  return (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;
}

function remoteOf({ remote }: Target): { origin: string; path: string; key: string } {
  const { protocol, host, pathname, password } = new URL(remote);
  return { origin: `${protocol}//${host}`, path: pathname, key: password };
}

async function endlessly(call: () => Promise<void>): Promise<void> {
  const caller = async () => {
    for (;;) await call().catch(() => sleep(1));
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}
