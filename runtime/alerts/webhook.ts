// Sends one signed message to a webhook, within a deadline. Reaches public addresses, private addresses that the operator
// allows, and apps on this machine.
import { createHmac } from 'node:crypto';
import { lookup as resolveName } from 'node:dns';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { PublicAddresses } from '../isolation/private-networks.ts';
import { reason } from '../log.ts';
import { endOddAnswers } from '../sockets/odd-answers.ts';

/** Timeout for a delivery in ms, from the DNS lookup to the end of the response. */
const DEADLINE_MS = 10_000;
/** Maximum bytes of a response. Its body is discarded; the connection of a larger one is closed. */
const ANSWER_BYTES = 64 * 1024;

export interface DeliveryResult {
  /** The response status; null without a response. */
  status: number | null;
  /** Why it was not delivered; null after a status of 200 to 299. */
  error: string | null;
}

/** A message, signed in the format of Standard Webhooks. A retry has the same `id`. */
export interface Message {
  id: string;
  body: string;
  /** Headers that the body's format needs, such as the content type. */
  headers: Record<string, string>;
  /** The signing key, 32 bytes. */
  secret: Buffer;
}

/** Formats a signing key for the owner of the webhook. */
export function secretText(secret: Buffer): string {
  return `whsec_${secret.toString('base64')}`;
}

/** The addresses that messages may reach. */
export interface Reach {
  addresses: PublicAddresses;
  /** Whether a URL is that of an app at this machine's gateway on loopback. */
  isLocalApp: (url: URL) => boolean;
}

/**
 * Posts a message. Never rejects.
 * @param signal aborts the request
 */
export async function send(
  url: string,
  { id, body, headers: own, secret }: Message,
  reach: Reach,
  signal: AbortSignal,
): Promise<DeliveryResult> {
  const timestamp = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64');
  const headers = {
    ...own,
    'content-length': Buffer.byteLength(body),
    'user-agent': 'Cellar-Alerts/1',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    const status = await post(url, headers, body, reach, AbortSignal.any([deadline, signal]));
    return { status, error: status >= 200 && status < 300 ? null : `the webhook answered ${status}` };
  } catch (error) {
    return {
      status: null,
      error: deadline.aborted ? `the webhook did not answer within ${DEADLINE_MS / 1000} s` : reason(error),
    };
  }
}

/** @returns the response status. Redirects are not followed. */
function post(
  text: string,
  headers: Record<string, string | number>,
  body: string,
  { addresses, isLocalApp }: Reach,
  signal: AbortSignal,
): Promise<number> {
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // `lookup` below is called only for names, so an address is checked here.
  if (isIP(host) !== 0 && !addresses.has(host)) return Promise.reject(new Error(notReachable(host)));
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const call = request(url, {
      method: 'POST',
      headers,
      agent: false,
      lookup: isLocalApp(url) ? toLoopback : publicOnly(addresses),
      signal,
    });
    call.on('error', reject);
    endOddAnswers(call, resolve);
    call.once('response', (response) => {
      // The status has been read: ignore later errors of the response body or the request.
      call.off('error', reject).on('error', () => {});
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > ANSWER_BYTES) response.destroy();
      });
      response.on('error', () => {});
      response.once('close', () => resolve(response.statusCode!));
    });
    call.end(body);
  });
}

/** Resolves every name to the gateway's address: not every resolver knows names below `localhost`. */
const toLoopback: LookupFunction = (_name, { all }, found) => {
  const [address, family] = ['127.0.0.1', 4];
  if (all) found(null, [{ address, family }]);
  else found(null, address, family);
};

/**
 * Returns a DNS lookup that leaves out forbidden addresses. The connection uses the addresses that were checked here.
 */
function publicOnly(reachable: PublicAddresses): LookupFunction {
  return (name, options, found) => {
    resolveName(name, { ...options, all: true }, (error, addresses) => {
      if (error) return found(error, '', 0);
      const left = addresses.filter(({ address }) => reachable.has(address));
      if (left.length === 0) return found(new Error(notReachable(name)), '', 0);
      if (options.all) found(null, left);
      else found(null, left[0]!.address, left[0]!.family);
    });
  };
}

function notReachable(host: string): string {
  return `${host} is not a public address; the operator can let webhooks reach it (RUNNER_EGRESS_ALLOW)`;
}
