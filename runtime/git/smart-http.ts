// Serves git's smart HTTP protocol with git's own CGI program. Packs are streamed.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable, Transform } from 'node:stream';
import { freeMegabytes } from '../disk/disk.ts';
import { log, reason } from '../log.ts';
import { type Job, resourceErrorCode, startJob } from '../processes/child.ts';
import { countGarbage } from '../threads/collect-garbage.ts';
import { gitEnvironment } from './environment.ts';
import { ExplainPush } from './explain-push.ts';
import { gitProgram } from './program.ts';
import { PREPARED, STORED } from './repository.ts';

/**
 * Idle timeout without a byte in either direction, in ms. A push waits for its deploy, whose build steps may print
 * nothing until their own timeout.
 */
const IDLE_MS = 15 * 60_000;
const PUSH = 'git-receive-pack';
const HEAD_LIMIT_BYTES = 16_384;

/** One request, already authorized by the control plane. */
export interface GitRequest {
  repository: string;
  hooks: string;
  /** `info/refs`, `git-upload-pack` or `git-receive-pack`. */
  service: string;
  /** The caller's role. git itself limits the role `push` to new and fast-forwarded branches. */
  role: Role;
  /** Disk space that must stay free, in MiB. */
  floorMb: number;
  /** The query, without `?`. */
  query: string;
  /**
   * Called before git changes refs, perhaps several times in a push; it needs the hooks of `writeAskingHooks`. When it rejects,
   * git does not change them, and the pusher sees the reason.
   */
  onPrepared?: (updates: RefUpdate[]) => Promise<void>;
  /** Called for a push with its ref updates. The pusher sees what is written to `output`. */
  onPush: (updates: RefUpdate[], output: Duplex) => void;
}

export type Role = 'view' | 'push' | 'admin';

/** One updated ref of a push. An all-zero sha means no commit. */
export interface RefUpdate {
  before: string;
  after: string;
  ref: string;
}

/** Answers one git request with `git http-backend`. Resolves when that has ended, even after a failure. */
export async function serveGit(
  git: GitRequest,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const fail = (error: Error) => {
    log('error', 'git failed', { repository: git.repository, service: git.service, error: error.message });
    if (!response.headersSent) response.writeHead(500).end();
    else response.destroy();
  };
  let child: Job;
  try {
    child = await startJob([...gitProgram(), 'http-backend'], {
      title: 'git http-backend',
      environment: {
        ...gitEnvironment({ ...settingsFor(git), 'core.hooksPath': git.hooks }),
        ...cgi(git, request),
      },
      channel: true,
    });
  } catch (error) {
    if (resourceErrorCode(error) === null) return fail(error as Error);
    log('warn', 'a push or fetch was refused, because its process could not be started', {
      repository: git.repository,
      error: reason(error),
    });
    response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '5' });
    response.end(
      'Cellar cannot start git now: the machine lacks processes, files or memory. Try again in a few seconds.\n',
    );
    return;
  }
  let hasEnded = false;
  const end = () => {
    if (!hasEnded) child.end('SIGTERM');
  };
  let idle = setTimeout(end, IDLE_MS);
  const alive = () => {
    clearTimeout(idle);
    // Do not restart the timer after git's end: its process id may belong to another process.
    if (!hasEnded) idle = setTimeout(end, IDLE_MS);
  };
  let received = false;
  request.on('data', (chunk: Buffer) => {
    countGarbage(chunk.length);
    alive();
  });
  request.on('end', () => {
    received = true;
  });
  // A push that was fully received continues without its client. Everything else ends with its client.
  const explained = git.service === PUSH ? new ExplainPush() : null;
  response.on('close', () => {
    if (!received || explained === null) return end();
    child.stdout.resume();
    explained.resume();
  });
  if (response.destroyed) end();

  request.pipe(child.stdin);
  // git may end before it has read the whole request. Then the rest is read and dropped. Listens to `close`, because `error`
  // comes only after a failed write.
  child.stdin.on('close', () => request.resume());
  collectErrors(child.stderr, git);
  child.stdout.on('data', alive);
  relayAnswer(child.stdout, response, explained, fail);
  const onPush = (updates: RefUpdate[], output: Duplex) => {
    explained?.stored();
    git.onPush(updates, output);
  };
  awaitPush(child.channel, { ...git, onPush }, (why) => explained?.aborted(why));
  await child.exited;
  hasEnded = true;
  await child.closed;
  clearTimeout(idle);
}

/** Harmless findings of git's object check in histories by old tools. */
const TOLERATED = [
  'zeroPaddedFilemode',
  'badTimezone',
  'badDateOverflow',
  'missingSpaceBeforeDate',
  'missingEmail',
];

/** Returns the option of `git index-pack` that checks objects like those of a push. */
export function strictness(): string {
  return `--strict=${TOLERATED.map((fault) => `${fault.toLowerCase()}=ignore`).join(',')}`;
}

/**
 * Returns git's settings: what it serves, what the role may do, which objects it accepts, and how large a push may be.
 * A push may use the free disk space above `floorMb`.
 */
function settingsFor({ role, repository, floorMb }: GitRequest): Record<string, string> {
  const room = (freeMegabytes(repository) - floorMb) * 2 ** 20;
  return {
    'http.receivepack': String(role !== 'view'),
    // Rejects paths such as `..` or `.git`, in the spelling of any file system.
    'receive.fsckObjects': 'true',
    ...Object.fromEntries(TOLERATED.map((fault) => [`receive.fsck.${fault}`, 'ignore'])),
    // At least 1, because 0 means no limit.
    'receive.maxInputSize': String(Math.max(1, room)),
    'uploadpack.allowFilter': 'true',
    ...(role === 'admin'
      ? { 'receive.denyDeleteCurrent': 'ignore' }
      : { 'receive.denyNonFastForwards': 'true', 'receive.denyDeletes': 'true' }),
  };
}

function cgi(git: GitRequest, request: IncomingMessage): Record<string, string> {
  const variables: Record<string, string> = {
    GIT_PROJECT_ROOT: git.repository,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: `/${git.service}`,
    QUERY_STRING: git.query,
    REQUEST_METHOD: request.method ?? 'GET',
    REMOTE_USER: 'git',
  };
  // Without CONTENT_LENGTH git reads to the end. With it, git loops for ever if the host is killed during the request.
  const named = {
    CONTENT_TYPE: request.headers['content-type'],
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
    GIT_PROTOCOL: request.headers['git-protocol'],
  };
  for (const [name, value] of Object.entries(named)) if (typeof value === 'string') variables[name] = value;
  return variables;
}

/** Parses the CGI head, then pipes the body, `through` a stream if given. */
function relayAnswer(
  output: Readable,
  response: ServerResponse,
  through: Transform | null,
  fail: (error: Error) => void,
): void {
  let head = Buffer.alloc(0);
  const onData = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0 && head.length < HEAD_LIMIT_BYTES) return;
    output.off('data', onData);
    output.off('end', onEnd);
    if (end < 0) return fail(new Error('git http-backend sent no head'));
    let status = 200;
    for (const line of head.subarray(0, end).toString('latin1').split('\r\n')) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      if (name === 'status') status = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.writeHead(status);
    if (through !== null) through.pipe(response);
    const body = through ?? response;
    body.write(head.subarray(end + 4));
    output.pipe(body);
  };
  const onEnd = () => fail(new Error('git http-backend ended without an answer'));
  output.on('data', onData);
  output.on('end', onEnd);
}

/**
 * Reads what the hooks of a push send: ref updates, up to an empty line. The first line is `PREPARED` when git asks before
 * it changes refs. Requests other than a push send nothing.
 */
function awaitPush(
  channel: Duplex,
  { onPush, onPrepared }: GitRequest,
  onAborted: (why: string) => void,
): void {
  let text = '';
  channel.setEncoding('utf8');
  channel.on('error', () => channel.destroy());
  channel.on('data', function read(chunk: string) {
    text += chunk;
    if (!text.endsWith('\n\n')) return;
    const [first = '', ...others] = text.slice(0, -'\n\n'.length).split('\n');
    text = '';
    if (first === PREPARED) {
      // git also names symbolic refs, such as HEAD, that lead to a changed ref.
      const updates = updatesOf(others).filter(({ ref }) => ref.startsWith('refs/'));
      (onPrepared?.(updates) ?? Promise.resolve()).then(
        () => channel.write(`${STORED}\n`),
        (error: unknown) => {
          onAborted(reason(error));
          channel.write('refused\n');
        },
      );
      return;
    }
    channel.off('data', read);
    const updates = updatesOf([first, ...others]);
    try {
      onPush(updates, channel);
    } catch (error) {
      // The app may have been deleted meanwhile.
      log('warn', 'a push could not be received', { error: reason(error) });
      channel.end();
    }
  });
}

function updatesOf(lines: string[]): RefUpdate[] {
  return lines.map((line) => {
    const [before = '', after = '', ref = ''] = line.split(' ');
    return { before, after, ref };
  });
}

function collectErrors(errors: Readable, git: GitRequest): void {
  let text = '';
  errors.on('data', (chunk: Buffer) => {
    if (text.length < 4096) text += chunk.toString('utf8');
  });
  errors.on('end', () => {
    if (text !== '')
      log('warn', 'git printed errors', {
        repository: git.repository,
        service: git.service,
        text: text.trim(),
      });
  });
}
