// REST, generated from the contract.
import { type IRequest, Router } from 'itty-router';
import * as z from 'zod';
import type { Context } from '../context.ts';
import { reference } from '../contract/fields.ts';
import { operations, operationsByName } from '../contract/index.ts';
import type { Operation } from '../contract/operation.ts';
import { otherRoutes } from '../contract/other-routes.ts';
import { auditFilter } from '../contract/people/audit.ts';
import { objectBytes } from '../contract/storage/buckets.ts';
import { Problem } from '../problem.ts';
import { auditLines } from '../services/people/audit.ts';
import { readJson } from './body.ts';
import { type Answered, idempotencyKey } from './idempotency.ts';
import { admit, invoke } from './invoke.ts';
import { holdBody, holderOf } from './large-bodies.ts';
import { OBJECT_BYTES, putObject } from './object-bytes.ts';
import { invalidInput } from './validate.ts';

type Arguments = [request: Request, context: Context];
type Input = Record<string, unknown>;
const copied = z.strictObject({ id: reference });
const exported = z.strictObject(auditFilter);

const router = Router<IRequest, Arguments>();
const declared: readonly Operation[] = operations;
for (const operation of declared) {
  if (operation.path === null) continue;
  const method = operation.method.toLowerCase() as 'get' | 'post' | 'patch' | 'delete';
  router[method](operation.path, async ({ params }, request, context) => {
    const input = withPath(operation, await inputOf(operation, request, context), params);
    const key = operation.method === 'GET' ? null : idempotencyKey(request.headers);
    const answered = await invoke(operation, context, input, { transport: 'rest', key });
    return unlessKnown(answer(answered), request);
  });
}

router.put(OBJECT_BYTES, async ({ params }, request, context) =>
  Response.json(
    await putObject(
      request,
      context,
      withPath({ input: objectBytes }, queryInput({ input: objectBytes }, request), params),
    ),
  ),
);

router.get('/v1/apps/:id/storage/copy', async ({ params }, request, context) => {
  const operation = operationsByName.get('storage.d1.export')!;
  const input = withPath({ input: copied }, queryInput({ input: copied }, request), params);
  const { checked } = await admit(context, operation, copied, input);
  const { body } = await context.host.bytes('GET /apps/:id/copy', checked);
  return new Response(body, {
    headers: { 'content-type': 'application/octet-stream', 'cache-control': 'no-store' },
  });
});

router.get('/v1/audit/export', async (_, request, context) => {
  const operation = operationsByName.get('audit.list')!;
  const { checked } = await admit(context, operation, exported, queryInput({ input: exported }, request));
  const lines = auditLines(context, checked);
  return new Response(lines, {
    headers: {
      'content-type': 'application/x-ndjson',
      'content-disposition': 'attachment; filename="audit.ndjson"',
      'cache-control': 'no-store',
    },
  });
});

/** Answers a REST request. `HEAD` runs as `GET`, without the body. */
export async function api(request: Request, context: Context): Promise<Response> {
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const response: Response | undefined = await router.fetch({ method, url: request.url }, request, context);
  if (response === undefined) throw new Problem('route_not_found', routeDetail(request));
  if (request.method !== 'HEAD') return response;
  await response.body?.cancel();
  return new Response(null, response);
}

async function inputOf(operation: Operation, request: Request, context: Context): Promise<Input> {
  const reads = operation.method === 'GET' || operation.method === 'DELETE';
  return reads ? queryInput(operation, request) : bodyInput(operation, request, context);
}

/** Adds the path's parameters to an input. @throws {Problem} when the input already has one of these fields */
function withPath(
  { input: { shape } }: Pick<Operation, 'input'>,
  input: Input,
  params: Record<string, string | undefined>,
): Input {
  const doubled = Object.keys(params).filter((name) => Object.hasOwn(input, name));
  if (doubled.length > 0) {
    throw invalidInput(
      doubled.map((path) => ({ path, message: 'is part of the path, and must not be given again' })),
    );
  }
  const decoded = Object.entries(decodeParams(params)).map(([name, text]) => [
    name,
    coerce(shape[name], String(text)),
  ]);
  return { ...input, ...Object.fromEntries(decoded) };
}

async function bodyInput(operation: Operation, request: Request, context: Context): Promise<Input> {
  const [unexpected] = new URL(request.url).searchParams.keys();
  if (unexpected !== undefined) {
    throw invalidInput([
      { path: unexpected, message: 'unknown field: this route takes its input as a JSON body' },
    ]);
  }
  if (operation.bodyLimit !== undefined) holdBody(request, holderOf(context));
  const body = await readJson(request, operation.bodyLimit);
  if (body === undefined) return {};
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidInput([{ path: '', message: 'must be a JSON object' }]);
  }
  return body as Input;
}

function queryInput(operation: Pick<Operation, 'input' | 'kind' | 'queryNames'>, request: Request): Input {
  const input: Input = Object.create(null);
  for (const [name, text] of new URL(request.url).searchParams) {
    const field = operation.queryNames?.[name] ?? name;
    if (field in input) throw invalidInput([{ path: name, message: 'is given twice' }]);
    input[field] = coerce(operation.input.shape[field], text);
  }
  const last = request.headers.get('last-event-id');
  if (operation.kind === 'stream' && last) input.last_event_id = last;
  const range = request.headers.get('range');
  if (operation.kind === 'bytes' && range && !request.headers.has('if-range')) input.range = range;
  return { ...input };
}

/**
 * Converts a value of a query string or path to a number or boolean if the schema requires one. Returns other values
 * unchanged.
 */
function coerce(schema: z.core.$ZodType | undefined, text: string): unknown {
  let inner = schema;
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault || inner instanceof z.ZodNullable) {
    inner = inner.def.innerType;
  }
  if (inner instanceof z.ZodNumber && /^-?\d{1,15}(\.\d{1,9})?$/.test(text)) return Number(text);
  if (inner instanceof z.ZodBoolean && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function decodeParams(params: Record<string, string | undefined>): Input {
  const entries = Object.entries(params).map(([name, text = '']) => {
    try {
      return [name, decodeURIComponent(text)];
    } catch {
      throw invalidInput([{ path: name, message: 'has a broken percent escape' }]);
    }
  });
  return Object.fromEntries(entries);
}

function answer({ status, output }: Answered): Response {
  if (output instanceof Response) return output;
  if (output instanceof ReadableStream) return eventStream(output);
  if (status === 204) return new Response(null, { status });
  return Response.json(output, { status, headers: { 'cache-control': 'no-store' } });
}

/** Answers 304 when the client's `If-None-Match` has the response's etag. */
async function unlessKnown(response: Response, request: Request): Promise<Response> {
  const tag = response.headers.get('etag');
  const known = request.headers
    .get('if-none-match')
    ?.split(',')
    .map((entry) => entry.trim().replace(/^W\//, ''));
  if (tag === null || !known || !(known.includes(tag) || known.includes('*'))) return response;
  await response.body?.cancel();
  const headers = new Headers(response.headers);
  for (const name of ['content-length', 'content-range']) headers.delete(name);
  return new Response(null, { status: 304, headers });
}

/** Returns a response with server-sent events. */
export function eventStream(stream: ReadableStream<Uint8Array>): Response {
  return new Response(stream, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
  });
}

/** Returns the message for a missing route, with the methods that the path accepts. */
function routeDetail(request: Request): string {
  const { pathname } = new URL(request.url);
  const methods = [
    ...router.routes.filter(([, pattern]) => pattern.test(pathname)).map(([method]) => method),
    ...otherRoutes.filter(({ path }) => path === pathname).map(({ method }) => method),
  ];
  const taken = methods.length > 0 ? ` This path takes ${[...new Set(methods)].join(', ')}.` : '';
  return `There is no route ${request.method} ${pathname}.${taken}`;
}
