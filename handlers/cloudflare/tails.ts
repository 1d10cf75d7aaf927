// `wrangler tail`: the log of an app as it is written, over a WebSocket.
import * as z from 'zod';
import { type Actor, accountOf, authorize } from '../access.ts';
import type { LogLine } from '../contract/telemetry.ts';
import { Problem } from '../problem.ts';
import { sameSecret } from '../secrets.ts';
import { appCall, type CallContext, openCall } from './call.ts';
import { CloudflareError, CODES } from './codes.ts';

const TAILS = '/accounts/:account/workers/scripts/:script/tails';
/** How long a tail may be opened, and lasts, in s. */
const TAIL_S = 6 * 3_600;
const PROTOCOL = 'trace-v1';
/** Bytes of one event of the log that are waited for. */
const EVENT_BYTES = 2 ** 20;
/** WebSocket's own: all is well, and something broke. */
const [NORMAL, NOT_ALLOWED, BROKEN] = [1000, 1008, 1011];
/** A line is sent to whoever was allowed to read it so long ago at most, in ms. */
const ALLOWED_MS = 5_000;

const Filters = z.object({
  filters: z
    .array(
      z.union([
        z.strictObject({ query: z.string() }),
        z.strictObject({ outcome: z.array(z.string()) }),
        z.strictObject({ sampling_rate: z.number().min(0).max(1) }),
      ]),
    )
    .default([]),
});
type Filter = z.output<typeof Filters>['filters'][number];

interface Tail {
  app: string;
  /** The account that asked for it; null for the runner token. */
  account: string | null;
  slug: string;
  filters: Filter[];
  /** In ms since 1970. */
  until: number;
}

export const tailCalls = [
  appCall({
    method: 'POST',
    path: TAILS,
    needs: 'view',
    body: z.unknown(),
    answer: async ({ env, actor }, body, app) => {
      const asked = Filters.safeParse(body);
      if (!asked.success)
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          'Lines of a log here are filtered by --search, --status and --sampling-rate; they do not say which method, header or address their request had.',
        );
      const until = Date.now() + TAIL_S * 1000;
      const token = await sealed(
        { app: app.id, account: accountOf(actor), slug: app.slug, filters: asked.data.filters, until },
        env.HOST_SECRET,
      );
      const url = `${env.PUBLIC_API_URL.replace(/^http/, 'ws')}/client/v4/tails/${token}`;
      return { id: crypto.randomUUID(), url, expires_at: new Date(until).toISOString() };
    },
  }),
  appCall({
    method: 'DELETE',
    path: `${TAILS}/:tail`,
    needs: 'view',
    // It has ended with its WebSocket.
    answer: async () => null,
  }),
  openCall({
    method: 'GET',
    path: '/tails/:token',
    answer: async (context) => {
      const tail = await opened(context);
      // Its account may have lost its role since, and may lose it later.
      const { account: id } = tail;
      const actor: Actor = id === null ? { kind: 'runner' } : { kind: 'account', id, runs: false };
      const allowed = () => authorize({ actor, reads: context.reads }, { needs: 'view' }, { id: tail.app });
      await allowed();
      if (context.request.headers.get('upgrade')?.toLowerCase() !== 'websocket')
        throw new CloudflareError(426, CODES.BAD_REQUEST, 'A tail is a WebSocket.');
      const lines = await context.host.telemetry.follow('logs', tail.app, {});
      const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
      server.accept();
      context.waitUntil(pass(lines, server, tail, allowed));
      return new Response(null, {
        status: 101,
        webSocket: client,
        headers: { 'sec-websocket-protocol': PROTOCOL },
      });
    },
  }),
];

/**
 * Passes lines on until either side ends. Never rejects.
 * @param allowed rejects once whoever reads has lost the role
 */
async function pass(
  stream: ReadableStream<Uint8Array>,
  socket: WebSocket,
  tail: Tail,
  allowed: () => Promise<void>,
): Promise<void> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const end = () => void reader.cancel().catch(() => {});
  socket.addEventListener('close', end);
  socket.addEventListener('error', end);
  const timer = setTimeout(end, tail.until - Date.now());
  let code = NORMAL;
  let asked = Date.now();
  try {
    let text = '';
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += part.value;
      const events = text.split('\n\n');
      text = events.pop()!.slice(-EVENT_BYTES);
      if (Date.now() - asked > ALLOWED_MS) {
        await allowed();
        asked = Date.now();
      }
      for (const event of events) send(event, socket, tail);
    }
  } catch (error) {
    code = error instanceof Problem ? NOT_ALLOWED : BROKEN;
  } finally {
    clearTimeout(timer);
    end();
    try {
      socket.close(code);
    } catch {
      // Its other side was first.
    }
  }
}

function send(event: string, socket: WebSocket, { slug, filters }: Tail): void {
  const data = /^data: ?(.*)$/m.exec(event)?.[1];
  if (data === undefined) return;
  const line = JSON.parse(data) as LogLine;
  if (line.source !== 'app' && line.source !== 'workerd') return;
  const outcome = line.level === 'error' ? 'exception' : 'ok';
  if (!filters.every((filter) => passes(filter, line, outcome))) return;
  const timestamp = Date.parse(line.at);
  socket.send(
    JSON.stringify({
      outcome,
      scriptName: slug,
      exceptions: [],
      logs: [{ level: line.level === 'info' ? 'log' : line.level, message: [line.text], timestamp }],
      eventTimestamp: timestamp,
      // Not of a request: with a type and a message Wrangler prints the line alone.
      event: { type: 'log', message: '', traceId: line.trace_id },
      diagnosticsChannelEvents: [],
    }),
  );
}

function passes(filter: Filter, { text }: LogLine, outcome: string): boolean {
  if ('query' in filter) return text.includes(filter.query);
  if ('outcome' in filter) return filter.outcome.includes(outcome);
  return Math.random() < filter.sampling_rate;
}

/** What a tail is, as a word of a path, with a proof that it was made here. */
async function sealed(tail: Tail, secret: string): Promise<string> {
  const text = base64Url(new TextEncoder().encode(JSON.stringify(tail)));
  return `${text}.${await proofOf(text, secret)}`;
}

/** @throws {CloudflareError} for a tail that was not made here, or has ended */
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
