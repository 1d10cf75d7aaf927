// Routes that are not operations: their descriptions for the OpenAPI document. Other files implement them.
import type { ErrorCode } from './errors.ts';

/** A route without an RPC method. `auth`: the required credentials. */
export interface OtherRoute {
  /** The name of the route in the OpenAPI document. */
  name: string;
  method: 'GET' | 'POST' | 'PUT';
  /** In OpenAPI's path syntax. */
  path: string;
  summary: string;
  auth: 'none' | 'token' | 'git';
  /** Required query fields, all strings. */
  query?: readonly string[];
  optionalQuery?: readonly string[];
  /** Request headers that the route reads. */
  headers?: readonly string[];
  /** Whether the route accepts an `Idempotency-Key`. */
  idempotent?: true;
  /** JSON Schema of the response, where it is JSON with a fixed shape. */
  schema?: object;
  /** JSON Schema of a 503 response that is not a problem. */
  unavailable?: object;
  /** Content type of the body; left out: no body. */
  takes?: string;
  /** Content type of the response. */
  answers: string;
  errors: readonly ErrorCode[];
}

const GIT_ERRORS = ['unauthorized', 'forbidden', 'app_not_found', 'host_unavailable'] as const;

export const otherRoutes: readonly OtherRoute[] = [
  {
    name: 'health',
    method: 'GET',
    path: '/health',
    summary: 'Reports that the process is alive',
    auth: 'none',
    answers: 'application/json',
    schema: {
      type: 'object',
      properties: { status: { type: 'string', enum: ['ok'] } },
      required: ['status'],
    },
    errors: ['bad_request'],
  },
  {
    name: 'ready',
    method: 'GET',
    path: '/ready',
    summary:
      'Reports whether all parts work; 503 names the parts that do not, `warnings` the parts that need attention',
    auth: 'none',
    answers: 'application/json',
    schema: {
      type: 'object',
      properties: {
        status: { type: 'string', enum: ['ready'] },
        warnings: { type: 'array', items: { type: 'string' } },
      },
      required: ['status'],
    },
    unavailable: {
      type: 'object',
      properties: {
        status: { type: 'string', enum: ['failing'] },
        failing: { type: 'array', items: { type: 'string' } },
      },
      required: ['status', 'failing'],
    },
    errors: ['bad_request'],
  },
  {
    name: 'metrics',
    method: 'GET',
    path: '/metrics',
    summary: "Figures of the host and of every app in Prometheus' text format; needs the runner token",
    auth: 'token',
    answers: 'text/plain',
    errors: ['unauthorized', 'forbidden', 'host_unavailable'],
  },
  {
    name: 'git.refs',
    method: 'GET',
    path: '/v1/git/{slug}/info/refs',
    summary: 'Lists the refs of a repository for git; a fetch needs the role view, a push the role push',
    auth: 'git',
    query: ['service'],
    answers: 'application/x-git-upload-pack-advertisement',
    errors: GIT_ERRORS,
  },
  {
    name: 'git.upload_pack',
    method: 'POST',
    path: '/v1/git/{slug}/git-upload-pack',
    summary: 'Answers a fetch of git; needs the role view',
    auth: 'git',
    takes: 'application/x-git-upload-pack-request',
    answers: 'application/x-git-upload-pack-result',
    errors: GIT_ERRORS,
  },
  {
    name: 'git.receive_pack',
    method: 'POST',
    path: '/v1/git/{slug}/git-receive-pack',
    summary: 'Receives a push of git; fast-forwards need the role push, all other changes the role admin',
    auth: 'git',
    takes: 'application/x-git-receive-pack-request',
    answers: 'application/x-git-receive-pack-result',
    errors: GIT_ERRORS,
  },
  {
    name: 'source.webhook',
    method: 'POST',
    path: '/v1/hooks/{id}',
    summary: "Receives the deliveries of a Git host's webhook, signed with the secret of `source.connect`",
    auth: 'none',
    takes: 'application/json',
    answers: 'application/json',
    schema: {
      type: 'object',
      properties: { result: { type: 'string', enum: ['queued', 'ignored', 'repeated'] } },
      required: ['result'],
    },
    errors: [
      'unauthorized',
      'source_not_connected',
      'malformed_json',
      'body_too_large',
      'rate_limited',
      'host_unavailable',
    ],
  },
  {
    name: 'storage.r2.bytes',
    method: 'PUT',
    path: '/v1/apps/{id}/storage/r2/{bucket}/raw',
    summary:
      'Stores the body as an object; with `upload_id` and `part`, as one part of an upload. Needs the role push and a Content-Length',
    auth: 'token',
    query: ['key'],
    optionalQuery: ['upload_id', 'part'],
    takes: 'application/octet-stream',
    answers: 'application/json',
    errors: [
      'invalid_input',
      'unauthorized',
      'forbidden',
      'app_not_found',
      'storage_not_found',
      'quota_exceeded',
      'request_timeout',
      'body_too_large',
      'insufficient_storage',
      'host_unavailable',
    ],
  },
  {
    name: 'storage.copy',
    method: 'GET',
    path: '/v1/apps/{id}/storage/copy',
    summary:
      'Copies the whole storage of an app, each database as of one moment: lines of JSON, each followed by the bytes of its file; needs the role push',
    auth: 'token',
    answers: 'application/octet-stream',
    errors: [
      'invalid_input',
      'unauthorized',
      'forbidden',
      'app_not_found',
      'rate_limited',
      'insufficient_storage',
      'host_unavailable',
    ],
  },
  {
    name: 'audit.export',
    method: 'GET',
    path: '/v1/audit/export',
    summary: 'Returns the same entries of the audit log as `audit.list`, newest first, as lines of JSON',
    auth: 'token',
    optionalQuery: ['account', 'app', 'operation', 'via', 'outcome', 'since', 'until'],
    answers: 'application/x-ndjson',
    errors: ['invalid_input', 'unauthorized', 'forbidden'],
  },
  {
    name: 'edge.tls_ask',
    method: 'GET',
    path: '/v1/edge/tls-ask',
    summary: 'Says whether a certificate may be issued for a name',
    auth: 'none',
    query: ['domain'],
    answers: 'text/plain',
    errors: ['unknown_host'],
  },
  {
    name: 'edge.wake',
    method: 'GET',
    path: '/v1/edge/wake',
    summary:
      'Wakes the app of a hostname if the app sleeps, for a proxy that calls this before it forwards a request',
    auth: 'none',
    headers: ['X-Forwarded-Host'],
    answers: 'application/json',
    schema: { type: 'object', properties: { status: { type: 'string' } }, required: ['status'] },
    errors: ['unknown_host', 'app_unavailable'],
  },
  {
    name: 'rpc',
    method: 'POST',
    path: '/rpc',
    summary: 'JSON-RPC 2.0: every operation, by its operationId',
    auth: 'token',
    idempotent: true,
    takes: 'application/json',
    answers: 'application/json',
    errors: ['invalid_input', 'unauthorized', 'body_too_large', 'unsupported_media_type'],
  },
  {
    name: 'mcp',
    method: 'POST',
    path: '/mcp',
    summary: 'Serves the Model Context Protocol, stateless; with `?read_only=true` only operations that read',
    auth: 'token',
    takes: 'application/json',
    answers: 'application/json',
    errors: [
      'invalid_input',
      'malformed_json',
      'unauthorized',
      'forbidden',
      'body_too_large',
      'unsupported_media_type',
    ],
  },
  {
    name: 'docs',
    method: 'GET',
    path: '/docs',
    summary: 'Shows the API reference as a page',
    auth: 'none',
    answers: 'text/html',
    errors: ['bad_request'],
  },
  {
    name: 'openapi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'Returns this OpenAPI document',
    auth: 'none',
    answers: 'application/json',
    errors: ['bad_request'],
  },
];
