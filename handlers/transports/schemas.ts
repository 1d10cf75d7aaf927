// Makes JSON Schemas with descriptions of their fields: for the components of the OpenAPI document, and for inputs and
// outputs of operations.
import * as z from 'zod';
import { HostStats } from '../contract/admin.ts';
import { App } from '../contract/apps/apps.ts';
import { Builds } from '../contract/apps/builds.ts';
import { Deploy } from '../contract/apps/deploys.ts';
import { Domain } from '../contract/apps/domains.ts';
import { EnvVariable } from '../contract/apps/env.ts';
import { Limits } from '../contract/apps/limits.ts';
import { Secret } from '../contract/apps/secrets.ts';
import { MailRoute } from '../contract/incoming/mail-routes.ts';
import { TcpPort } from '../contract/incoming/tcp-ports.ts';
import { answerMeanings, meanings } from '../contract/meanings.ts';
import { Account, Collaborator, Key } from '../contract/people/accounts.ts';
import { Alert } from '../contract/telemetry/alerts.ts';
import { Channel, Event, Insight, User } from '../contract/telemetry/events.ts';
import { GroupedError } from '../contract/telemetry/grouped-errors.ts';
import { LogLine } from '../contract/telemetry/logs.ts';
import { MetricStep } from '../contract/telemetry/metrics.ts';

export type Json = Record<string, unknown>;

const named = {
  Account,
  Alert,
  App,
  Builds,
  Channel,
  Collaborator,
  Deploy,
  Domain,
  MailRoute,
  EnvVariable,
  Event,
  GroupedError,
  HostStats,
  Insight,
  Key,
  Limits,
  LogLine,
  MetricStep,
  TcpPort,
  Secret,
  User,
} as const;

const ID = '0f9q2t6m8r4kx1zb';
const DEPLOY_ID = '0f9q30c4w7hv5n2a';
const AT = '2026-10-01T12:00:00.000Z';

/** Examples by the name of a schema, or by the name of an operation for its input. A test validates them. */
export const examples: Readonly<Record<string, Json>> = {
  App: {
    id: ID,
    slug: 'shop',
    owner: '0f9q1a2b3c4d5e6f',
    desired_state: 'running',
    storage: 'local',
    home: null,
    replicas: 1,
    dispatch: null,
    maintenance: false,
    status: 'running',
    asleep_since: null,
    woke_at: AT,
    url: 'http://shop.localhost:8787',
    git_url: 'http://git.localhost:8787/shop',
    live_deploy_id: DEPLOY_ID,
    deployed_at: AT,
    last_error: null,
    warnings: [],
    created_at: AT,
  },
  Deploy: {
    id: DEPLOY_ID,
    app_id: ID,
    sha: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
    ref: 'refs/heads/main',
    message: 'Show the cart',
    author: 'Ada <ada@example.com>',
    requested_by: null,
    version: { id: DEPLOY_ID, tag: '', message: 'Show the cart', created_at: AT },
    trigger: 'push',
    status: 'live',
    can_roll_back: true,
    steps: [{ name: 'bundle', status: 'done', duration_ms: 41 }],
    error: null,
    started_at: AT,
    finished_at: AT,
  },
  EnvVariable: { name: 'NPM_TOKEN', value: 'npm_123', updated_at: AT },
  Domain: {
    hostname: 'shop.example.com',
    app_id: ID,
    created_at: AT,
    state: 'pending',
    reason: 'shop.example.com has no address, and _cellar.shop.example.com has no TXT record.',
    checked_at: AT,
    records: [
      { type: 'CNAME', name: 'shop.example.com', value: 'cellar.example' },
      { type: 'TXT', name: '_cellar.shop.example.com', value: ID },
    ],
  },
  'apps.create': { slug: 'shop' },
  'apps.update': { desired_state: 'stopped' },
  'apps.rename': { slug: 'store' },
  'deploys.rollback': { deploy_id: DEPLOY_ID },
  'env.set': { name: 'NPM_TOKEN', value: 'npm_123' },
  'mail.routes.set': { address: 'info@shop.example.com' },
  'tcp.ports.set': { port: 20000 },
  'domains.add': { hostname: 'shop.example.com' },
  'source.commit': {
    message: 'Say hello',
    author_email: 'ada@example.com',
    files: [{ path: 'index.js', content: "export default { fetch: () => new Response('hello') };" }],
  },
  'vars.set': { id: 'shop', name: 'API_URL', value: 'https://api.example.com' },
  'secrets.set': { id: 'shop', name: 'STRIPE_KEY', value: 'sk_123' },
  'limits.set': { id: 'shop', clientRpm: 600, appRpm: null },
  'builds.set': { id: 'shop', root_directory: 'apps/web', build_command: 'npm run build:web' },
  'keys.create': { account: '0f9q1a2b3c4d5e6f', name: 'laptop' },
  'errors.list': { id: 'shop', status: 'open', limit: 20 },
};

const registry = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries(named)) registry.add(schema, { id });

/** Returns the JSON Schema of one fixed string. Uses `enum`, because client generators ignore the type of a `const`. */
export function only(text: string): Json {
  return { type: 'string', enum: [text] };
}

/** Returns the named schemas as components of the OpenAPI document. */
export function components(): Json {
  return Object.fromEntries(
    Object.entries(named).map(([name, schema]) => {
      const { $defs } = z.toJSONSchema(z.tuple([schema]), { io: 'output', metadata: registry });
      const { id: _, ...own } = $defs![name] as Json;
      const described = finished(own, {}) as Json;
      const properties = Object.entries(described.properties as Record<string, Json>).map(
        ([field, shown]) => {
          const description = answerMeanings[name]?.[field];
          return [field, description === undefined ? shown : { description, ...shown }];
        },
      );
      const example = examples[name];
      const whole = { ...described, properties: Object.fromEntries(properties) };
      return [name, example ? { ...whole, examples: [example] } : whole];
    }),
  );
}

/** Returns the JSON Schema of an input, with its fields' descriptions for this operation. */
export function inputSchema(operation: string, schema: z.ZodType): Json {
  const own = Object.keys(meanings).filter((key) => key.startsWith(`${operation}.`));
  const here = Object.fromEntries(own.map((key) => [key.slice(operation.length + 1), meanings[key]!]));
  const { $schema: _, ...described } = z.toJSONSchema(schema, { io: 'input' }) as Json;
  return finished(described, { ...meanings, ...here }) as Json;
}

/** Returns the JSON Schema of an output, as a reference if it has a name. */
export function outputSchema(schema: z.ZodType): Json {
  const own = registry.get(schema);
  if (own !== undefined) return { $ref: `#/components/schemas/${own.id}` };
  const {
    $schema: _,
    $defs: __,
    ...described
  } = z.toJSONSchema(schema, { io: 'output', metadata: registry });
  return finished(described, { next_cursor: meanings.next_cursor! }) as Json;
}

/** Makes references point to components, adds the fields' descriptions, and adapts the schema to client generators. */
function finished(value: unknown, fields: Readonly<Record<string, string>>): unknown {
  if (Array.isArray(value)) return value.map((each) => finished(each, fields));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
    if (key === '$ref') return [key, String(inner).replace('#/$defs/', '#/components/schemas/')];
    // `allOf` has several patterns for one string. Each gets the type, because client generators ignore a schema without a
    // type.
    if (key === 'allOf')
      return [key, (inner as Json[]).map((each) => ({ type: (value as Json).type, ...each }))];
    if (key === 'const') return ['enum', [inner]];
    if (key !== 'properties') return [key, finished(inner, fields)];
    const properties = Object.entries(inner as Json).map(([name, field]) => {
      const shown = finished(field, fields) as Json;
      const description = fields[name];
      return [name, description === undefined ? shown : { description, ...shown }];
    });
    return [key, Object.fromEntries(properties)];
  });
  return Object.fromEntries(entries);
}
