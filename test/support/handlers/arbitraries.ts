// Inputs of operations for property-based tests: valid by the schema, and invalid.
import * as fc from 'fast-check';
import * as z from 'zod';
import type { Operation } from '../../../handlers/contract/operation.ts';

export type Input = Record<string, unknown>;

/** The subset of JSON Schema that the contract uses. */
export interface Schema {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  allOf?: Schema[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  propertyNames?: Schema;
  additionalProperties?: Schema | boolean;
}

/** Valid values of fields for `fittingInput`. The JSON Schema of these fields does not have all of their rules. */
export const VALID_FIELDS = {
  hostname: fc.constant('shop.example.com'),
  address: fc.constant('info@shop.example.com'),
  url: fc.constant('https://example.com/hook'),
  on: fc.constant(['crash']),
  files: fc.constant([{ path: 'index.js', content: '' }]),
  versions: fc.constant([{ version: 'a', percentage: 100 }]),
};

export function inputSchema(operation: Operation): Schema {
  return z.toJSONSchema(operation.input, { io: 'input' }) as Schema;
}

/**
 * Generates inputs that fit an operation's schema.
 * @param known arbitraries by field name, for fields whose schema does not have all of their rules
 */
export function fittingInput(
  operation: Operation,
  known: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Input> {
  const { properties = {}, required = [] } = inputSchema(operation);
  const fields = Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => name !== 'cursor')
      .map(([name, schema]) => [name, known[name] ?? fitting(schema)]),
  );
  return fc.record(fields, { requiredKeys: required });
}

/** Generates inputs with one to three random changes, mostly invalid. */
export function junkInput(
  operation: Operation,
  known: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Input> {
  const names = Object.keys(inputSchema(operation).properties ?? {});
  const name = names.length > 0 ? fc.constantFrom(...names) : fc.constant('field');
  const change = fc.oneof(
    fc.tuple(name, junk),
    fc.tuple(fc.constantFrom('__proto__', 'constructor', 'toString', '', 'color', 'x'.repeat(8192)), junk),
    fc.tuple(name, fc.constant(undefined)),
  );
  return fc
    .tuple(fittingInput(operation, known), fc.array(change, { minLength: 1, maxLength: 3 }))
    .map(([input, changes]) => {
      const changed = new Map(Object.entries(input));
      for (const [field, value] of changes) {
        if (value === undefined) changed.delete(field);
        else changed.set(field, value);
      }
      return Object.fromEntries(changed);
    });
}

const nested = (depth: number): unknown => (depth === 0 ? 'end' : [nested(depth - 1)]);

/** Texts that parsers and databases often handle wrong. */
export const junkTexts = [
  ...['', ' ', '\t\n', '.', '..', '../../etc/passwd', 'a/b', '%', '%2e%2e%2f', '?', '#', 'a b', '\\'],
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'null', 'undefined', 'NaN'],
  ...['\0', 'a\0b', '\u0001', '\u007f', '\u2028', '\u202e', '\ufeff', '\ud800', 'a\udfff', '😀'.repeat(60)],
  ...["' OR 1=1 --", '"; DROP TABLE apps; --', '$1', '?1', '{{7*7}}', '<script>', 'x'.repeat(8192)],
  ...['0', '-1', '1e999', '9'.repeat(30), 'true', '[]', '{}', 'bnVsbA', 'W10', 'WzFd', 'WyIiLCIiXQ'],
];

const junk: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...junkTexts) },
  fc.constantFrom(null, true, false, 0, -0, -1, 1.5, 1e308, 5e-324, 2 ** 53, -(2 ** 63), 1e21),
  fc.constantFrom([], {}, [[]], [null], { $inc: 1e308 }, { $inc: '1' }, { toString: 1 }, nested(50)),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.jsonValue({ maxDepth: 3 }),
);

/** Used instead of a pattern with a lookaround, because fast-check cannot generate texts for a lookaround. */
const WORD = /^[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$/;
/** Length of the longest repetition that fast-check generates at the size `small`. */
const SHORT = 10;

/** Generates values that fit a schema. */
function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (Object.keys(schema).length === 0) return fc.jsonValue({ maxDepth: 2 });
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(fitting));
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => fitting({ type })));
  const { minimum: min = -(2 ** 53) + 1, maximum: max = 2 ** 53 - 1 } = schema;
  switch (schema.type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min, max });
    case 'number':
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case 'string':
      return fittingText(schema);
    case 'array': {
      const { minItems: minLength = 0, maxItems = 4 } = schema;
      return fc.array(fitting(schema.items!), { minLength, maxLength: Math.min(maxItems, 4) });
    }
    case 'object':
      return fittingObject(schema);
    default:
      throw new Error(`no arbitrary for ${JSON.stringify(schema)}`);
  }
}

function fittingObject(schema: Schema): fc.Arbitrary<unknown> {
  const { properties, required = [], propertyNames = { type: 'string' }, additionalProperties } = schema;
  if (properties !== undefined) {
    const fields = Object.fromEntries(
      Object.entries(properties).map(([name, inner]) => [name, fitting(inner)]),
    );
    return fc.record(fields, { requiredKeys: required });
  }
  const names = fitting(propertyNames) as fc.Arbitrary<string>;
  const odd = propertyNames.pattern ? ['constructor', 'toString'] : ['constructor', 'toString', '0', 'a.b'];
  const key = fc.oneof(names, fc.constantFrom(...odd));
  return fc.dictionary(key, fitting(additionalProperties as Schema), { maxKeys: 5 });
}

function fittingText(schema: Schema): fc.Arbitrary<string> {
  const { format, minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema;
  const patterns = [schema, ...(schema.allOf ?? [])].flatMap(({ pattern }) =>
    pattern === undefined ? [] : [new RegExp(pattern)],
  );
  const fits = (text: string) =>
    text.length >= minLength && text.length <= maxLength && patterns.every((pattern) => pattern.test(text));
  if (format === 'email') return fc.emailAddress().filter(fits);
  if (format === 'base64') return fc.base64String({ maxLength: 40 });
  if (format === 'date-time') {
    const offset = fc.constantFrom('Z', '+00:00', '-11:30', '+14:00');
    return fc
      .tuple(fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }), offset)
      .map(([date, zone]) => date.toISOString().replace('Z', zone))
      .filter(fits);
  }
  const [pattern] = patterns;
  if (patterns.length === 1) {
    // With the size `small`, all texts would be shorter than `minLength`, and the filter would loop for ever.
    const size = minLength > SHORT ? 'medium' : 'small';
    return fc.stringMatching(/\(\?[=!<]/.test(pattern!.source) ? WORD : pattern!, { size }).filter(fits);
  }
  return fc.string({ unit: 'binary', minLength, maxLength: Math.min(maxLength, 40) }).filter(fits);
}
