// A repository served over smart HTTP, and a working copy for stock git.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createRepository, writeAskingHooks, writeHooks } from '../../../runtime/git/repository.ts';
import { type GitRequest, type Role, serveGit } from '../../../runtime/git/smart-http.ts';
import { temporaryDirectory } from '../temporary.ts';

/** Disk space in MiB that pushes must leave free. */
export const FLOOR_MB = 32;

/** The head of a request that git sent. */
export interface Seen {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
}

/** Callbacks for a repository in a bucket: `before` runs git, `onPrepared` stores the updates of a push. */
interface InBucket extends Required<Pick<GitRequest, 'onPrepared'>> {
  before: (isPush: boolean, serve: () => Promise<void>) => Promise<void>;
}

/** Serves an empty repository. `url` gives the role admin; `as` returns the URL for another role. */
export async function remote(
  t: TestContext,
  onPush: GitRequest['onPush'] = (_, output) => output.end(),
  directory = temporaryDirectory(t),
  bucket: InBucket | null = null,
) {
  const repository = join(directory, 'app.git');
  const hooks = join(directory, 'hooks');
  const work = join(directory, 'work');
  const seen: Seen[] = [];
  if (bucket === null) await createRepository(repository);
  if (bucket === null) writeHooks(hooks);
  else writeAskingHooks(hooks);
  const server = createServer((request, response) => {
    const [path = '', query = ''] = request.url!.split('?');
    const [, role, ...service] = path.split('/');
    seen.push({ method: request.method!, path: service.join('/'), headers: request.headers });
    const asked = { service: service.join('/'), role: role as Role, query };
    const onPrepared = bucket ? { onPrepared: bucket.onPrepared } : {};
    const git = { repository, hooks, floorMb: FLOOR_MB, onPush, ...onPrepared, ...asked };
    const serve = () => serveGit(git, request, response);
    if (bucket === null) return void serve();
    const isPush = `${asked.service} ${query}`.includes('git-receive-pack');
    bucket.before(isPush, serve).catch((error: Error) => response.writeHead(503).end(error.message));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const as = (role: Role) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${role}`;
  execFileSync('git', ['init', '--quiet', '--initial-branch=main', work]);
  return { url: as('admin'), as, repository, directory, work, seen, git: gitIn(work) };
}

/** Returns a function that runs stock git in a directory. It resolves whatever the exit code; `printed` is stdout and stderr. */
export function gitIn(cwd: string) {
  return async (...words: string[]): Promise<{ code: number; printed: string }> => {
    const identity = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' };
    const committer = { GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' };
    const child = spawn('git', words, { cwd, env: { ...process.env, ...identity, ...committer } });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
    const [code] = await once(child, 'close');
    return { code: code as number, printed };
  };
}
