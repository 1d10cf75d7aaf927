// A proxy of a bucket, and requests of apps to it.
import { request } from 'node:http';
import { connect } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { appKeys } from '../../../runtime/bucket/app-keys.ts';
import type { S3Place } from '../../../runtime/bucket/place.ts';
import { BucketProxy } from '../../../runtime/bucket/proxy/bucket-proxy.ts';
import type { Counts } from '../../../runtime/bucket/proxy/messages.ts';
import {
  authorizationOf,
  encodePath,
  encodeQuery,
  signatureDate,
  UNSIGNED,
} from '../../../runtime/bucket/proxy/signature.ts';

export const CLUSTER_KEY = 'c1'.repeat(32);

/** Starts a proxy that ends with the test. Records the values that it passes to `onCounts` and `onAway`. */
export async function startProxy(t: TestContext, place: S3Place) {
  const counts = new Map<string, Counts>();
  const away: (string | null)[] = [];
  const proxy = new BucketProxy({
    ...{ place, clusterKey: CLUSTER_KEY, user: () => null },
    onCounts: (appId, totals) => counts.set(appId, totals),
    onAway: (reason) => away.push(reason),
  });
  t.after(() => proxy.close());
  const port = proxy.listen();
  await proxy.start();
  return { proxy, port, counts, away };
}

/** A request of an app. Some fields make it differ from the request that was signed. */
export interface Asked {
  method?: string;
  path: string;
  query?: Record<string, string>;
  body?: string | Buffer;
  /** Headers that are sent and signed. */
  headers?: Record<string, string>;
  /** Headers that are sent but not signed. */
  unsigned?: Record<string, string>;
  /** The target that is sent instead of the signed one. */
  sentTarget?: string;
  /** The method that is sent instead of the signed one. */
  sentMethod?: string;
  /** Headers that the signature leaves out. */
  leavesOut?: string[];
  secretKey?: string;
  accessKey?: string;
  at?: Date;
  bodyHash?: string;
}

export interface Sent {
  method: string;
  target: string;
  headers: Record<string, string>;
}

/** Returns an app's request with its signature. */
export function signedBy(appId: string, asked: Asked): Sent {
  const { method = 'GET', path, query = {}, at = new Date(), bodyHash = UNSIGNED } = asked;
  const keys = appKeys(CLUSTER_KEY, appId);
  const date = signatureDate(at);
  const headers: Record<string, string> = {
    host: '127.0.0.1',
    'x-amz-content-sha256': bodyHash,
    'x-amz-date': date,
    ...asked.headers,
  };
  const encodedQuery = encodeQuery(new Map(Object.entries(query)));
  const signed = Object.entries(headers)
    .filter(([name]) => !asked.leavesOut?.includes(name))
    .sort();
  const authorization = authorizationOf(
    { method, path: encodePath(path), query: encodedQuery, headers: signed, bodyHash, date, region: 'auto' },
    { accessKey: asked.accessKey ?? keys.accessKey, secretKey: asked.secretKey ?? keys.secretKey },
  );
  const target = encodedQuery === '' ? encodePath(path) : `${encodePath(path)}?${encodedQuery}`;
  return {
    method: asked.sentMethod ?? method,
    target: asked.sentTarget ?? target,
    headers: { ...headers, authorization, ...asked.unsigned },
  };
}

export interface Answered {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  /** The code of an error; empty for a success. */
  code: string;
}

/** Sends a request of an app to a proxy. */
export async function ask(port: number, appId: string, asked: Asked): Promise<Answered> {
  const { method, target, headers } = signedBy(appId, asked);
  const { promise, resolve, reject } = Promise.withResolvers<Answered>();
  const length = asked.body === undefined ? {} : { 'content-length': Buffer.byteLength(asked.body) };
  const sent = request({
    ...{ host: '127.0.0.1', port, method, path: target, agent: false },
    headers: { ...length, ...headers },
    signal: AbortSignal.timeout(20_000),
  });
  sent.on('response', (answer) => {
    text(answer).then((body) => {
      const code = /<Code>(.*?)<\/Code>/.exec(body)?.[1] ?? '';
      resolve({ status: answer.statusCode!, headers: answer.headers, body, code });
    }, reject);
  });
  sent.on('error', reject);
  sent.end(asked.body);
  return promise;
}

/** Sends bytes to a port, and returns the answer as text once the connection ends. */
export async function sendRaw(port: number, head: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.setTimeout(45_000, () => socket.destroy(new Error('no answer')));
  // A refusal may reset the connection before all is sent.
  socket.on('error', () => {});
  socket.write(head);
  return (await buffer(socket)).toString('latin1');
}
