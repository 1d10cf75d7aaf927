// Checks the package registry during a long install: package managers retry silently for minutes.
import { setTimeout as sleep } from 'node:timers/promises';
import { unknownAuthority } from '../../bucket/client.ts';
import type { RegistryTimes } from '../release/build-input.ts';
import { type ConfineOptions, confine } from './confine.ts';
import { run } from './run.ts';

const TIMES: RegistryTimes = { afterMs: 10_000, deadlineMs: 8_000 };
/** Uses npm itself, because it knows the registry, the proxy and the certificates of an install. */
const PING = ['npm', 'ping', '--fetch-retries=0', '--loglevel=notice'];
/** Timeout of the whole check, in ms. It is long, because npm may start slowly. */
const HANGS_MS = 180_000;
/** npm's codes for an unreachable registry. An HTTP status counts as an answer. */
const UNREACHABLE =
  /^(?:ECONN\w+|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)UNREACH|EPROTO|\w*CERT\w*|UNABLE_TO_\w+|\w*TIMEDOUT|\w*TIMEOUT)$/;

/**
 * Waits, queries the install's registry once, and reports when it is unreachable. Never rejects.
 * @param place where the install runs: the check runs beside it, within the same limits
 * @param ended aborts when the install has ended
 */
export async function reportUnreachableRegistry(
  place: ConfineOptions,
  ended: AbortSignal,
  report: (line: string) => void,
  { afterMs, deadlineMs } = TIMES,
): Promise<void> {
  try {
    await sleep(afterMs, undefined, { signal: ended });
    const fault = await ask(place, ended, deadlineMs);
    if (fault !== null && !ended.aborted) report(fault);
  } catch {
    // The install has ended, or the check could not run: the install itself reports the error.
  }
}

/** Queries the registry once. @returns the problem; `null` when the registry has answered, or the state is unknown */
async function ask(place: ConfineOptions, ended: AbortSignal, deadlineMs: number): Promise<string | null> {
  let host: string | undefined;
  let why: string | undefined;
  const late = new AbortController();
  let deadline: NodeJS.Timeout | undefined;
  const confined = await confine(PING, place);
  await run({
    title: 'npm ping',
    arguments: confined.arguments,
    cwd: confined.cwd,
    environment: confined.environment,
    watch: confined.watch,
    timeoutMs: HANGS_MS,
    signal: AbortSignal.any([ended, late.signal]),
    onLine: (line) => {
      const [, address] = /^npm notice PING (\S+)$/.exec(line) ?? [];
      const [, code = ''] = /^npm (?:error|ERR!) code (\S+)$/.exec(line) ?? [];
      if (UNREACHABLE.test(code)) why ??= unknownAuthority(code) ?? code;
      if (address === undefined || host !== undefined) return;
      // Shows only the host of a URL: the rest may hold a password.
      host = URL.parse(address)?.host;
      // From here on npm waits for the registry, and has no timeout while it connects.
      deadline = setTimeout(() => {
        why ??= `timeout, no answer within ${deadlineMs / 1000} s`;
        late.abort();
      }, deadlineMs);
    },
  }).catch(() => {});
  clearTimeout(deadline);
  await confined.end();
  if (host === undefined || why === undefined) return null;
  return `the package registry ${host} cannot be reached (${why}): the install continues with its cache`;
}
