// `wrangler tail`: streams an app's log over a WebSocket.
import * as z from 'zod';
import { hasKey } from '../../../sqlite/control/people/keys.ts';
import { type Actor, accountOf, authorize, keyOf } from '../../access.ts';
import type { TailedLine, TailedRequest } from '../../contract/host/host-calls.ts';
import { operationsByName } from '../../contract/index.ts';
import { Problem } from '../../problem.ts';
import { sameSecret } from '../../secrets.ts';
import { appCall, type CallContext, openCall } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { Filter, TailEvents } from './tail-events.ts';

const TAILS = '/accounts/:account/workers/scripts/:script/tails';
/** Lifetime of a tail in s, from its creation. */
const TAIL_S = 6 * 3_600;
/** The operation whose rights the reader of a tail needs. */
const STREAM_OPERATION = operationsByName.get('logs.stream')!;
const PROTOCOL = 'trace-v1';
/** Maximum characters of an incomplete event that are buffered. */
const EVENT_CHARACTERS = 2 ** 20;
/** WebSocket close codes: normal, policy violation, internal error. */
const [NORMAL, NOT_ALLOWED, BROKEN] = [1000, 1008, 1011];
/** Maximum age of the last check of the reader's rights when a line is sent, in ms. */
const RIGHTS_AGE_MS = 5_000;

/** Interval at which buffered events are checked, in ms. */
const TICK_MS = 250;

const Filters = z.object({ filters: z.array(Filter).max(20).default([]) });

interface Tail {
  app: string;
  /** The account that created the tail; null for the runner token. */
  account: string | null;
  /** The id of the API key that created the tail; null without an API key. */
  key: string | null;
  slug: string;
  filters: Filter[];
  /** Expiry in ms since 1970. */
  until: number;
}

export const tailCalls = [
  appCall({
    method: 'POST',
    path: TAILS,
    as: 'logs.stream',
    body: z.unknown(),
    answer: async ({ env, actor }, body, app) => {
      const asked = Filters.safeParse(body);
      if (!asked.success)
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          'Cellar supports only the filters --search, --status, --method, --version-id and --sampling-rate of wrangler tail, because it does not store the headers or the whole address of a request: leave out the others.',
        );
      const key = keyOf(actor);
      const until = Math.min(Date.now() + TAIL_S * 1000, Date.parse(key?.expiresAt ?? '') || Infinity);
      const tail = { app: app.id, account: accountOf(actor), key: key?.id ?? null, slug: app.slug, until };
      const token = await sealed({ ...tail, filters: asked.data.filters }, env.HOST_SECRET);
      const url = `${env.PUBLIC_API_URL.replace(/^http/, 'ws')}/client/v4/tails/${token}`;
      return { id: crypto.randomUUID(), url, expires_at: new Date(until).toISOString() };
    },
  }),
  appCall({
    method: 'DELETE',
    path: `${TAILS}/:tail`,
    as: 'logs.stream',
    // Nothing to delete: the tail ended with its WebSocket.
    answer: async () => null,
  }),
  openCall({
    method: 'GET',
    path: '/tails/:token',
    answer: async (context) => {
      const tail = await opened(context);
      // The account may have lost its role or its key since it created the tail, and may lose them while the tail is open.
      const { account: id, key } = tail;
      const actor: Actor = id === null ? { kind: 'runner' } : { kind: 'account', id, runs: false, key: null };
      const allowed = async () => {
        const isKept = key === null || (await hasKey(context.reads, key));
        if (!isKept) throw new Problem('unauthorized', 'The API key of this tail was revoked.');
        await authorize({ actor, reads: context.reads }, STREAM_OPERATION, { id: tail.app });
      };
      await allowed();
      if (context.request.headers.get('upgrade')?.toLowerCase() !== 'websocket')
        throw new CloudflareError(426, CODES.BAD_REQUEST, 'A tail needs a WebSocket connection.');
      const { host } = context;
      const words = { id: tail.app };
      const lines = await host.bytes('POST /apps/:id/telemetry/logs/stream', words, { body: { tail: true } });
      const requests = await host.bytes('GET /apps/:id/telemetry/requests/stream', words);
      const followed = { lines: lines.body!, requests: requests.body! };
      const url = context.env.PUBLIC_APP_URL.replace('{slug}', tail.slug);
      const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
      server.accept();
      context.waitUntil(pass(followed, server, { ...tail, url }, allowed));
      return new Response(null, {
        status: 101,
        webSocket: client,
        headers: { 'sec-websocket-protocol': PROTOCOL },
      });
    },
  }),
];

/**
 * Forwards requests and lines until a stream or the socket ends, the tail expires, or `allowed` rejects. Never rejects.
 * @param tail the tail and the app's URL
 * @param allowed rejects once the reader has lost the role or the key
 */
async function pass(
  followed: Record<'lines' | 'requests', ReadableStream<Uint8Array>>,
  socket: WebSocket,
  tail: Tail & { url: string },
  allowed: () => Promise<unknown>,
): Promise<void> {
  const events = new TailEvents({ ...tail, send: (event) => socket.send(JSON.stringify(event)) });
  let asked = Date.now();
  const stillAllowed = async () => {
    if (Date.now() - asked <= RIGHTS_AGE_MS) return;
    asked = Date.now();
    await allowed();
  };
  const reading = [
    follow(followed.lines, stillAllowed, (line: TailedLine) => events.line(line, Date.now())),
    follow(followed.requests, stillAllowed, (request: TailedRequest) => events.request(request, Date.now())),
  ];
  const ended = Promise.withResolvers<void>();
  for (const { done } of reading) done.then(ended.resolve, ended.reject);
  for (const name of ['close', 'error'] as const) socket.addEventListener(name, () => ended.resolve());
  const timer = setTimeout(ended.resolve, tail.until - Date.now());
  const ticking = setInterval(() => {
    if (!events.isWaiting) return;
    stillAllowed().then(() => events.tick(Date.now()), ended.reject);
  }, TICK_MS);
  let code = NORMAL;
  try {
    await ended.promise;
  } catch (error) {
    code = error instanceof Problem ? NOT_ALLOWED : BROKEN;
  } finally {
    clearTimeout(timer);
    clearInterval(ticking);
    for (const { cancel } of reading) cancel();
    try {
      socket.close(code);
    } catch {
      // The other side has already closed the socket.
    }
  }
}

/** Reads server-sent events, and calls `take` with the parsed JSON of each. */
function follow<Data>(
  stream: ReadableStream<Uint8Array>,
  stillAllowed: () => Promise<void>,
  take: (data: Data) => void,
): { done: Promise<void>; cancel: () => void } {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const read = async () => {
    let text = '';
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += part.value;
      const events = text.split('\n\n');
      text = events.pop()!.slice(-EVENT_CHARACTERS);
      await stillAllowed();
      for (const event of events) {
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        // Named events report dropped lines. Wrangler has no format for them.
        if (data !== undefined && !/^event:/m.test(event)) take(JSON.parse(data) as Data);
      }
    }
  };
  return { done: read(), cancel: () => void reader.cancel().catch(() => {}) };
}

/** Encodes a tail as one path segment, with an HMAC that proves that this Cellar made it. */
async function sealed(tail: Tail, secret: string): Promise<string> {
  const text = base64Url(new TextEncoder().encode(JSON.stringify(tail)));
  return `${text}.${await proofOf(text, secret)}`;
}

/** Decodes a tail. @throws {CloudflareError} when this Cellar did not make it, or it has expired */
async function opened({ words, env }: CallContext): Promise<Tail> {
  const [text = '', proof = ''] = words.token!.split('.');
  const isOurs = await sameSecret(proof, await proofOf(text, env.HOST_SECRET));
  const tail = isOurs ? (JSON.parse(new TextDecoder().decode(fromBase64Url(text))) as Tail) : null;
  if (tail !== null && tail.until > Date.now()) return tail;
  throw new CloudflareError(
    401,
    CODES.AUTHENTICATION,
    'There is no such tail, or it has ended: run wrangler tail again.',
  );
}

async function proofOf(text: string, secret: string): Promise<string> {
  const bytes = (part: string) => new TextEncoder().encode(part);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', bytes(secret), algorithm, false, ['sign']);
  return base64Url(new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes(`tail ${text}`))));
}

function base64Url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

function fromBase64Url(text: string): Uint8Array {
  return Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (character) =>
    character.charCodeAt(0),
  );
}
