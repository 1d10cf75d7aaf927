// Types and values of the SQL of Analytics Engine. The types have ClickHouse's names.

/** A point in time is in whole seconds since 1970, and a truth value is 1 or 0. */
export type Value = number | string | (number | string)[];

type ScalarName =
  | 'UInt8'
  | 'UInt32'
  | 'UInt64'
  | 'Int64'
  | 'Float64'
  | 'String'
  | 'DateTime'
  | 'Date'
  | 'Interval';

export type TypeName = ScalarName | `Array(${ScalarName})`;

export interface Type {
  name: TypeName;
  /** The time zone in which a DateTime is shown, and in which its days begin. */
  zone?: string;
  /** The type of the values of an array. */
  item?: Type;
}

export interface Column {
  name: string;
  type: Type;
}

export const UINT8: Type = { name: 'UInt8' };
export const UINT32: Type = { name: 'UInt32' };
export const UINT64: Type = { name: 'UInt64' };
export const INT64: Type = { name: 'Int64' };
export const FLOAT64: Type = { name: 'Float64' };
export const STRING: Type = { name: 'String' };

const NUMBERS: TypeName[] = ['UInt8', 'UInt32', 'UInt64', 'Int64', 'Float64'];

export function isNumber({ name }: Type): boolean {
  return NUMBERS.includes(name);
}

export function isTime({ name }: Type): boolean {
  return name === 'DateTime' || name === 'Date';
}

/** Returns the type of an array of such values; null if the values are arrays, because arrays do not nest. */
export function arrayOf(item: Type): Type | null {
  return item.item === undefined ? { name: `Array(${item.name as ScalarName})`, item } : null;
}

/** Returns a type for the values of both types; null when there is none. */
export function commonType(a: Type, b: Type): Type | null {
  if (a.name === b.name) return a;
  if (!isNumber(a) || !isNumber(b)) return null;
  return NUMBERS.indexOf(a.name) > NUMBERS.indexOf(b.name) ? a : b;
}

/** Returns the type of a sum. */
export function wide(type: Type): Type {
  return type.name === 'UInt8' || type.name === 'UInt32' ? UINT64 : type;
}
