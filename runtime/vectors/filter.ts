// Parses filters of queries, and finds the values of metadata that filters are compared with.
import type { Condition, IndexedValue, Property, PropertyType } from '../../sqlite/storage/vectors.ts';
import { invalid } from './errors.ts';
import { FILTER_BYTES, INDEXED_BYTES } from './limits.ts';

const BOUNDS = { $lt: '<', $lte: '<=', $gt: '>', $gte: '>=' } as const;

/**
 * Returns the conditions of a filter; none without a filter.
 * @throws {VectorsError} for an invalid filter; the message names the wrong part
 */
export function conditionsOf(filter: unknown, properties: Property[]): Condition[] {
  if (filter === undefined || filter === null) return [];
  if (!isObject(filter)) throw invalid('filter: must be an object');
  const bytes = Buffer.byteLength(JSON.stringify(filter));
  if (bytes > FILTER_BYTES)
    throw invalid(`filter: may have at most ${FILTER_BYTES} bytes as JSON, and has ${bytes}`);
  return Object.entries(filter).map(([name, asked]) => {
    const property = properties.find((each) => each.name === name);
    if (property === undefined)
      throw invalid(
        `filter: ${name} is not indexed: make an index with \`wrangler vectorize create-metadata-index\`, and then insert the vectors`,
      );
    return conditionOf(property, asked);
  });
}

function conditionOf(property: Property, asked: unknown): Condition {
  const condition: Condition = { property: property.number, bounds: [], isMissing: asked === null };
  if (asked === null) return condition;
  const operators = isObject(asked) ? Object.entries(asked) : [['$eq', asked] as const];
  if (operators.length === 0) throw invalid(`filter: ${property.name} has no operator`);
  for (const [operator, value] of operators) {
    const one = () => requiredValue(property, operator, value);
    const list = () => {
      if (!Array.isArray(value)) throw invalid(`filter: ${property.name}.${operator} must be a list`);
      return value.map((each) => requiredValue(property, operator, each));
    };
    if (operator === '$eq') condition.any = [one()];
    else if (operator === '$ne') condition.none = [one()];
    else if (operator === '$in') condition.any = list();
    else if (operator === '$nin') condition.none = list();
    else if (Object.hasOwn(BOUNDS, operator))
      condition.bounds.push({ operator: BOUNDS[operator as keyof typeof BOUNDS], value: one() });
    else
      throw invalid(
        `filter: ${property.name}: ${operator} is unknown; there are $eq, $ne, $in, $nin, $lt, $lte, $gt and $gte`,
      );
  }
  return condition;
}

function requiredValue({ name, type }: Property, operator: string, value: unknown): IndexedValue {
  const indexed = indexedValue(value, type);
  if (indexed === null)
    throw invalid(
      `filter: ${name}.${operator} must be a ${type}, because the metadata index of ${name} has that type`,
    );
  return indexed;
}

/** Returns the values of a vector's metadata to index, each with its property. */
export function indexedValues(
  metadata: Record<string, unknown> | null,
  properties: Property[],
): [Property, IndexedValue][] {
  if (metadata === null) return [];
  return properties.flatMap((property) => {
    const value = indexedValue(valueAt(metadata, property.name), property.type);
    return value === null ? [] : [[property, value] as [Property, IndexedValue]];
  });
}

/** Returns metadata with only the properties of these names. `a.b` is the property `b` of the object `a`. */
export function metadataAt(metadata: Record<string, unknown>, names: string[]): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const name of names) {
    const keys = name.split('.');
    const last = keys.pop()!;
    let at = result;
    for (const key of keys) {
      if (!Object.hasOwn(at, key)) define(at, key, {});
      at = at[key] as Record<string, unknown>;
    }
    define(at, last, valueAt(metadata, name));
  }
  return result;
}

/** Defines an own property. An assignment would set the prototype when the key is `__proto__`. */
function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
}

function valueAt(metadata: Record<string, unknown>, name: string): unknown {
  return name
    .split('.')
    .reduce<unknown>((at, key) => (isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined), metadata);
}

/** Returns a value as it is indexed; null when it has another type. Texts are cut to `INDEXED_BYTES` bytes. */
function indexedValue(value: unknown, type: PropertyType): IndexedValue | null {
  if (typeof value !== type) return null;
  if (typeof value === 'string') return Buffer.from(value).subarray(0, INDEXED_BYTES).toString('latin1');
  return Number(value);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
