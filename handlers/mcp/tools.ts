// The tools for agents, generated from the contract: one tool for each common operation, and four tools for all others.
import type { Tool } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { operations } from '../contract/index.ts';
import { isDestructive, type Operation } from '../contract/operation.ts';
import { inputSchema as described, type Json } from '../transports/schemas.ts';

/** Operations with a tool of their own. */
const DIRECT = [
  'apps.list',
  'apps.create',
  'apps.get',
  'apps.update',
  'apps.sleep',
  'apps.delete',
  'deploys.list',
  'deploys.get',
  'deploys.log',
  'deploys.create',
  'deploys.cancel',
  'deploys.rollback',
  'source.tree',
  'source.blob',
  'source.diff',
  'source.commit',
  'logs.list',
  'errors.list',
  'errors.get',
  'errors.set_status',
  'metrics.get',
  'env.list',
  'env.set',
  'vars.list',
  'vars.set',
  'secrets.list',
  'secrets.set',
  'domains.list',
  'domains.add',
  'storage.overview',
  'storage.d1.get',
  'storage.d1.write',
  'storage.kv.list',
  'storage.kv.get',
];
/** Maximum characters of a pattern in a schema. Longer patterns are dropped, because they fill the agent's context. */
const LONGEST_PATTERN = 60;

/** One tool, with the operation that it runs. */
export interface OwnTool {
  tool: Tool;
  /** The operation that the tool runs; null for the four tools of `REACHING`. */
  operation: Operation | null;
  /** Whether the tool changes something. */
  changes: boolean;
}

const declared: readonly Operation[] = operations;
/** Operations that tools can run: all but streams, which have no end. */
export const callable: readonly Operation[] = declared.filter(({ kind }) => kind !== 'stream');

/** Returns the name of the tool for an operation. Some clients do not accept dots. */
export function toolName(operation: string): string {
  return operation.replaceAll('.', '_');
}

const named = z.strictObject({ name: z.string().describe('An operation, such as domains.remove.') });
const called = named.extend({
  params: z
    .looseObject({})
    .optional()
    .describe('The input of the operation. `api_describe` returns its schema.'),
});
/** Inputs of the tools for operations without a tool of their own. */
export const REACHING = {
  api_operations: z.strictObject({}),
  api_describe: named,
  api_read: called,
  api_change: called,
};
const others: readonly OwnTool[] = [
  reaching('api_operations', 'Lists the operations that have no tool of their own.', 'read'),
  reaching(
    'api_describe',
    'Returns the schemas of the input and the answer of an operation, as JSON Schema.',
    'read',
  ),
  reaching('api_read', 'Runs any operation that only reads.', 'read'),
  reaching('api_change', 'Runs any operation that changes or deletes something.', 'change'),
];

/** All tools, in the order in which they are listed. */
export const tools: readonly OwnTool[] = [
  ...DIRECT.map((each) => toolOf(declared.find((operation) => operation.name === each)!)),
  ...others,
];

/** Whether an operation has a tool of its own. */
export function isDirect({ name }: Operation): boolean {
  return DIRECT.includes(name);
}

/** Returns an operation's input as a short JSON Schema. */
export function inputSchema(operation: Operation): Tool['inputSchema'] {
  return slimInput(described(operation.name, operation.input));
}

function slimInput(input: Json): Tool['inputSchema'] {
  const schema = slim(input) as { properties?: Json; required?: string[] };
  const { properties = {}, required } = schema;
  return {
    type: 'object',
    properties: properties as Tool['inputSchema']['properties'],
    ...(required && required.length > 0 && { required }),
  };
}

/**
 * Removes the parts of a schema that a caller does not need: length limits, long patterns, rules for names, encodings that the
 * description names too, and `additionalProperties: false`. Keeps the schema of the values of a record.
 */
export function slim(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(slim);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(
    ([key, inner]) =>
      !['$schema', 'minLength', 'maxLength', 'propertyNames', 'contentEncoding'].includes(key) &&
      !(key === 'additionalProperties' && inner === false) &&
      !(key === 'pattern' && String(inner).length > LONGEST_PATTERN) &&
      !((key === 'minimum' || key === 'maximum') && Math.abs(Number(inner)) === Number.MAX_SAFE_INTEGER),
  );
  return Object.fromEntries(kept.map(([key, inner]) => [key, slim(inner)]));
}

function toolOf(operation: Operation): OwnTool {
  const changes = operation.method !== 'GET';
  return {
    tool: {
      name: toolName(operation.name),
      description: `${operation.summary}.`,
      inputSchema: inputSchema(operation),
      annotations: annotationsOf(changes, isDestructive(operation)),
    },
    operation,
    changes,
  };
}

function reaching(name: keyof typeof REACHING, description: string, kind: 'read' | 'change'): OwnTool {
  const changes = kind === 'change';
  const inputSchema = slimInput(z.toJSONSchema(REACHING[name], { io: 'input' }) as Json);
  const tool = { name, description, inputSchema, annotations: annotationsOf(changes, changes) };
  return { tool, operation: null, changes };
}

function annotationsOf(changes: boolean, destructive: boolean): Tool['annotations'] {
  return changes ? { readOnlyHint: false, destructiveHint: destructive } : { readOnlyHint: true };
}
