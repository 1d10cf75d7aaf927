// Requests to the API of a Git host: only over HTTPS, at addresses that are looked up and checked before, within a deadline,
// and without redirects.
import { type RequestOptions, request } from 'node:https';
import { isIP } from 'node:net';
import type { Remote } from '../../../handlers/contract/source/remote.ts';
import { addressesOf } from '../../builds/source/remote.ts';
import type { PublicAddresses } from '../../isolation/private-networks.ts';
import { endOddAnswers } from '../../sockets/odd-answers.ts';
import { readAtMost } from '../../sockets/read-at-most.ts';

/** Timeout of a request, in ms. */
const DEADLINE_MS = 15_000;
/**
 * Maximum bytes of an answer: enough for a page of comments. It is limited because the gateway's thread parses the answer.
 */
const ANSWER_BYTES = 2 * 2 ** 20;
const SHOWN_LENGTH = 200;

/** What all requests to one Git host have in common. */
export interface GitHostTarget {
  /** The host and port of the API. */
  remote: Pick<Remote, 'host' | 'port'>;
  prefix: string;
  headers: Record<string, string>;
  reachable: PublicAddresses;
}

/** An answer of the Git host. `json` parses its body, and returns null without one. @throws {Error} when it is not JSON */
export interface GitHostAnswer {
  status: number;
  json: () => unknown;
}

/**
 * Makes a request.
 * @param accepted statuses besides 200 to 299 that are not a failure
 * @throws {Error} with what the Git host says, and without headers, because these contain the token
 */
export async function askGitHost(
  { remote: { host, port }, prefix, headers, reachable }: GitHostTarget,
  method: 'GET' | 'POST' | 'PATCH' | 'PUT',
  path: string,
  body: object | null,
  signal: AbortSignal,
  accepted: number[] = [],
): Promise<GitHostAnswer> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const aborted = AbortSignal.any([deadline, signal]);
  try {
    const [address] = await addressesOf({ host }, reachable);
    const sent = body === null ? '' : JSON.stringify(body);
    const { status, bytes } = await answerOf(
      {
        method,
        host: address!,
        port,
        path: prefix + path,
        servername: isIP(host) === 0 ? host : '',
        headers: {
          host: `${isIP(host) === 6 ? `[${host}]` : host}${port === 443 ? '' : `:${port}`}`,
          'user-agent': 'Cellar',
          accept: 'application/json',
          ...(body !== null && {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(sent)),
          }),
          ...headers,
        },
      },
      sent,
      aborted,
    );
    const text = bytes.toString('utf8');
    if ((status < 200 || status > 299) && !accepted.includes(status))
      throw new Error(`${host} answered ${status} to ${method} ${path}: ${text.slice(0, SHOWN_LENGTH)}`);
    return { status, json: () => (text === '' ? null : parse(text, host)) };
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) throw new Error(`${host} did not answer within ${DEADLINE_MS / 1000} s`);
    throw error;
  }
}

function answerOf(
  options: RequestOptions,
  sent: string,
  signal: AbortSignal,
): Promise<{ status: number; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    const call = request({ ...options, agent: false, signal }, (response) => {
      readAtMost(response, ANSWER_BYTES).then((bytes) => {
        if (bytes === null) reject(new Error(`the answer is longer than ${ANSWER_BYTES} bytes`));
        else resolve({ status: response.statusCode!, bytes });
        response.destroy();
      }, reject);
    });
    call.on('error', reject);
    endOddAnswers(call, (status) => reject(new Error(`the answer has the status ${status}`)));
    call.end(sent);
  });
}

function parse(text: string, host: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${host} did not answer with JSON`);
  }
}
