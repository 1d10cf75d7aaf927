// A vector index of an app: vectors with their metadata, and a short code of each. The codes find candidates in a large
// index. sqlite-vec computes the distances: https://github.com/asg017/sqlite-vec
import Database from 'better-sqlite3';
import { getLoadablePath } from 'sqlite-vec';

/** Maximum vectors that are compared one by one. Among more, the codes choose the candidates. */
export const EXACT_MOST = 20_000;
/** Number of candidates that the codes choose. Their distances are then computed. */
const CANDIDATES = 2_000;
/** A row with up to 3,000 numbers fits into a page of this size. */
const PAGE_BYTES = 16_384;
/** Maximum rows that are in memory at once. */
const ROWS = 500;
/** Longest wait for another thread that writes, in ms. */
const BUSY_MS = 10_000;

/** One entry for each schema version, in order. Never change a released one: add the next. */
const MIGRATIONS = [
  `
  CREATE TABLE settings (
    dimensions INTEGER,                   -- null until the first vector
    metric TEXT NOT NULL,
    mutation TEXT,                        -- id of the last one
    mutated INTEGER,                      -- its time, in ms since 1970
    center BLOB                           -- float32: the mean that codes are relative to; null without codes
  ) STRICT;
  INSERT INTO settings (metric) VALUES ('cosine');

  CREATE TABLE vectors (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    namespace TEXT,
    metadata TEXT,                        -- JSON
    value BLOB NOT NULL                   -- float32
  ) STRICT;
  CREATE INDEX vectors_by_namespace ON vectors (namespace) WHERE namespace IS NOT NULL;

  CREATE TABLE count (vectors INTEGER NOT NULL) STRICT;
  INSERT INTO count VALUES (0);
  CREATE TRIGGER vector_made AFTER INSERT ON vectors BEGIN UPDATE count SET vectors = vectors + 1; END;
  CREATE TRIGGER vector_gone AFTER DELETE ON vectors BEGIN UPDATE count SET vectors = vectors - 1; END;

  -- Properties of the metadata that filters may name.
  CREATE TABLE properties (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,            -- with dots between nested keys
    type TEXT NOT NULL
  ) STRICT;
  CREATE TABLE indexed (
    property INTEGER NOT NULL,
    value ANY NOT NULL,
    vector INTEGER NOT NULL,
    PRIMARY KEY (property, value, vector)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX indexed_by_vector ON indexed (vector);
  `,
  // The codes were in a virtual table. Its search for 2,000 candidates takes many times longer than a sort of all codes.
  `
  CREATE VIRTUAL TABLE IF NOT EXISTS codes USING vec0 (code bit[8]);
  CREATE TABLE moved (
    number INTEGER PRIMARY KEY,
    code BLOB NOT NULL                    -- a bit for each dimension
  ) STRICT;
  INSERT INTO moved SELECT rowid, code FROM codes;
  DROP TABLE codes;
  ALTER TABLE moved RENAME TO codes;
  `,
];

export type Metric = 'cosine' | 'euclidean' | 'dot-product';
export type PropertyType = 'string' | 'number' | 'boolean';

export interface Settings {
  dimensions: number | null;
  metric: Metric;
  mutation: string | null;
  /** In ms since 1970. */
  mutated: number | null;
}

export interface VectorRow {
  id: string;
  namespace: string | null;
  /** JSON. */
  metadata: string | null;
  value: Float32Array;
}

export interface Property {
  number: number;
  name: string;
  type: PropertyType;
}

/** A value of a property, as it is indexed: booleans are 0 and 1. */
export type IndexedValue = string | number;

/** A condition on an indexed property. A vector matches if `any`, `none` and `bounds` all hold. */
export interface Condition {
  property: number;
  /** The value must be one of these. Left out: any value. */
  any?: IndexedValue[];
  /** The value must not be one of these. Vectors without the property match too. */
  none?: IndexedValue[];
  bounds: { operator: '<' | '<=' | '>' | '>='; value: IndexedValue }[];
  /** Whether only vectors without the property match. Then `any`, `none` and `bounds` are ignored. */
  isMissing: boolean;
}

export interface Search {
  value: Float32Array;
  count: number;
  namespace: string | null;
  conditions: Condition[];
}

export interface Match {
  number: number;
  id: string;
  namespace: string | null;
  metadata: string | null;
  value: Buffer;
  distance: number | null;
}

/** The vectors that a search may return, as an SQL condition on their `number`. */
type Candidates = { sql: string; values: unknown[] };

/**
 * Opens a vector index and migrates it. Each commit is synced to the disk.
 * @throws {Error} when the file was written by a newer Cellar
 */
export function openVectorIndex(path: string) {
  const database = new Database(path, { timeout: BUSY_MS });
  try {
    database.pragma(`page_size = ${PAGE_BYTES}`);
    useLog(database);
    database.pragma('synchronous = FULL');
    loadExtension(database);
    migrate(database, path);
  } catch (error) {
    database.close();
    throw error;
  }
  return { ...indexQueries(database), close: () => database.close() };
}
export type VectorIndex = ReturnType<typeof openVectorIndex>;

/** sqlite-vec has no library for this platform, or the library cannot be loaded here. */
export class MissingExtension extends Error {}

function loadExtension(database: Database.Database): void {
  try {
    database.loadExtension(getLoadablePath());
  } catch {
    const { platform, arch } = process;
    // Apps see this message, so it names no path.
    throw new MissingExtension(
      `vector indexes need sqlite-vec, which cannot be loaded on this ${platform}-${arch} machine; on Linux it needs glibc, on x64 or arm64`,
    );
  }
}

/** Uses a write-ahead log. Retries, because SQLite does not wait when two threads create the file at the same time. */
function useLog(database: Database.Database): void {
  const until = Date.now() + BUSY_MS;
  for (;;)
    try {
      return void database.pragma('journal_mode = WAL');
    } catch (error) {
      const { code = '' } = error as { code?: string };
      if (!code.startsWith('SQLITE_BUSY') || Date.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
}

function migrate(database: Database.Database, path: string): void {
  const version = () => database.pragma('user_version', { simple: true }) as number;
  if (version() > MIGRATIONS.length)
    throw new Error(
      `${path} was written by a newer Cellar (schema ${version()}; this Cellar knows ${MIGRATIONS.length}); start the newer version`,
    );
  if (version() === MIGRATIONS.length) return;
  database
    .transaction(() => {
      // Another thread may have migrated the file meanwhile.
      for (const migration of MIGRATIONS.slice(version())) database.exec(migration);
      database.pragma(`user_version = ${MIGRATIONS.length}`);
    })
    .immediate();
}

function indexQueries(database: Database.Database) {
  const settings = database.prepare<[], Settings & { center: Buffer | null }>('SELECT * FROM settings');
  const setSettings = database.prepare<[number | null, Metric]>(
    'UPDATE settings SET dimensions = ?, metric = ?, center = NULL',
  );
  const setMutation = database.prepare<[string, number]>('UPDATE settings SET mutation = ?, mutated = ?');
  const setCenter = database.prepare<[Buffer]>('UPDATE settings SET center = ?');
  const count = database.prepare<[], { vectors: number }>('SELECT vectors FROM count');
  const vector = database.prepare<[string], Omit<Match, 'distance'>>('SELECT * FROM vectors WHERE id = ?');
  const add = database.prepare<[string, string | null, string | null, Buffer]>(
    'INSERT INTO vectors (id, namespace, metadata, value) VALUES (?, ?, ?, ?)',
  );
  const remove = database.prepare<[string], { number: number }>(
    'DELETE FROM vectors WHERE id = ? RETURNING number',
  );
  const page = database.prepare<[string, number], { id: string }>(
    'SELECT id FROM vectors WHERE id > ? ORDER BY id LIMIT ?',
  );
  const properties = database.prepare<[], Property>('SELECT * FROM properties ORDER BY name');
  const addProperty = database.prepare<[string, string]>('INSERT INTO properties (name, type) VALUES (?, ?)');
  const removeProperty = database.prepare<[string], { number: number }>(
    'DELETE FROM properties WHERE name = ? RETURNING number',
  );
  const removeIndexed = database.prepare<[number]>('DELETE FROM indexed WHERE property = ?');
  const addIndexed = database.prepare<[number, IndexedValue, number | bigint]>(
    'INSERT INTO indexed VALUES (?, ?, ?)',
  );
  const forgetVector = database.prepare<[number]>('DELETE FROM indexed WHERE vector = ?');
  const insertCode = database.prepare<[number | bigint, Buffer]>('INSERT INTO codes VALUES (?, ?)');
  const removeCode = database.prepare<[number]>('DELETE FROM codes WHERE number = ?');
  const indexedOf = database.prepare<[number], { name: string }>(
    'SELECT name FROM indexed JOIN properties ON number = property WHERE vector = ?',
  );
  const some = database.prepare<[number, number], { number: number; value: Buffer }>(
    'SELECT number, value FROM vectors WHERE number > ? ORDER BY number LIMIT ?',
  );
  /** Reads the vectors in steps, because not all of them fit into memory. */
  function* values() {
    for (let rows = some.all(0, ROWS); rows.length > 0; rows = some.all(rows.at(-1)!.number, ROWS))
      yield* rows;
  }

  const addCode = (number: number | bigint, value: Float32Array, center: Float32Array, metric: Metric) =>
    insertCode.run(number, codeOf(value, center, metric));

  /** Makes the codes once there are more than `EXACT_MOST` vectors, because codes need the mean of the vectors. */
  const makeCodes = () => {
    const { dimensions, metric, center } = settings.get()!;
    if (center !== null || dimensions === null || count.get()!.vectors <= EXACT_MOST) return;
    const sum = new Float64Array(dimensions);
    for (const { value } of values()) {
      const floats = floatsOf(value);
      const scale = scaleOf(floats, metric);
      for (let at = 0; at < dimensions; at++) sum[at]! += floats[at]! * scale;
    }
    const total = count.get()!.vectors;
    const mean = Float32Array.from(sum, (each) => each / total);
    setCenter.run(bytesOf(mean));
    for (const { number, value } of values()) addCode(number, floatsOf(value), mean, metric);
  };

  /** Returns a condition for the vectors that match namespace and conditions of a search; null when all match. */
  const candidatesOf = ({ namespace, conditions }: Search): Candidates | null => {
    const parts: Candidates[] = conditions.map(candidatesOfCondition);
    if (namespace !== null)
      parts.unshift({
        sql: 'number IN (SELECT number FROM vectors WHERE namespace = ?)',
        values: [namespace],
      });
    if (parts.length === 0) return null;
    return joined(parts);
  };

  /** Returns whether the candidates are few enough to be compared one by one. For an index with codes. */
  const isFew = (candidates: Candidates | null): boolean => {
    if (candidates === null) return count.get()!.vectors <= EXACT_MOST;
    const counted = database
      .prepare<unknown[], { n: number }>(
        `SELECT count(*) AS n FROM (SELECT 1 FROM codes WHERE ${candidates.sql} LIMIT ${EXACT_MOST + 1})`,
      )
      .get(...candidates.values)!;
    return counted.n <= EXACT_MOST;
  };

  return {
    settings: (): Settings => settings.get()!,
    /** Sets dimensions and metric of an index without vectors. */
    setSettings: (dimensions: number | null, metric: Metric): void =>
      void setSettings.run(dimensions, metric),
    setMutation: (id: string): void => void setMutation.run(id, Date.now()),
    /** Returns the size of the database, in bytes. */
    bytes: (): number =>
      (database.pragma('page_count', { simple: true }) as number) *
      (database.pragma('page_size', { simple: true }) as number),
    count: (): number => count.get()!.vectors,
    vector: (id: string) => vector.get(id),
    /** Adds a vector. @param indexed its values of indexed properties */
    add: ({ id, namespace, metadata, value }: VectorRow, indexed: [Property, IndexedValue][]): void => {
      const { lastInsertRowid: number } = add.run(id, namespace, metadata, bytesOf(value));
      for (const [property, each] of indexed) addIndexed.run(property.number, each, number);
      const { center, metric } = settings.get()!;
      if (center !== null) addCode(number, value, floatsOf(center), metric);
    },
    makeCodes,
    /** @returns whether there was such a vector */
    remove: (id: string): boolean => {
      const gone = remove.get(id);
      if (gone === undefined) return false;
      forgetVector.run(gone.number);
      removeCode.run(gone.number);
      return true;
    },
    /** Returns the ids that follow `after`, in order. */
    page: (after: string, limit: number): string[] => page.all(after, limit).map(({ id }) => id),
    properties: (): Property[] => properties.all(),
    addProperty: (name: string, type: PropertyType): void => void addProperty.run(name, type),
    removeProperty: (name: string): boolean => {
      const gone = removeProperty.get(name);
      if (gone !== undefined) removeIndexed.run(gone.number);
      return gone !== undefined;
    },
    /** Returns the names of the indexed properties that a vector has. */
    indexedOf: (number: number): string[] => indexedOf.all(number).map(({ name }) => name),
    /** Returns the nearest vectors, nearest first. Approximate among more than `EXACT_MOST` candidates, by the codes. */
    search: (search: Search): Match[] => {
      const { metric, center } = settings.get()!;
      const candidates = candidatesOf(search);
      let [distance, asked] = ['dot(value)', [] as Buffer[]];
      if (metric !== 'dot-product') [distance, asked] = [DISTANCES[metric], [bytesOf(search.value)]];
      // Uses a function, because SQLite would copy the searched vector for each row if it were a parameter.
      else database.function('dot', (value) => negativeDot(floatsOf(value as Buffer), search.value));
      let where = candidates === null ? '' : `WHERE ${candidates.sql}`;
      let chosen = candidates?.values ?? [];
      if (center !== null && !isFew(candidates)) {
        where = `WHERE number IN (SELECT number FROM codes ${where} ORDER BY ${CODE_DISTANCE} LIMIT ${CANDIDATES})`;
        chosen = [...chosen, codeOf(search.value, floatsOf(center), metric)];
      }
      // Sorts only numbers and distances, because a sort would copy the vectors. They are read afterwards.
      const nearest = database
        .prepare<unknown[], { number: number; distance: number | null }>(
          `SELECT number, ${distance} AS distance FROM vectors ${where} ORDER BY distance NULLS LAST, number LIMIT ?`,
        )
        .all(...asked, ...chosen, search.count);
      const whole = database.prepare<[number], Omit<Match, 'distance'>>(
        'SELECT * FROM vectors WHERE number = ?',
      );
      return nearest.map(({ number, distance }) => ({ ...whole.get(number)!, distance }));
    },
    /** Runs `work`, whose reads all see the same state. */
    snapshot: <T>(work: () => T): T => database.transaction(work).deferred(),
    /** Runs `work` as one transaction. */
    transaction: <T>(work: () => T): T => database.transaction(work).immediate(),
  };
}

/** The distances as SQL, with a parameter for the searched vector. */
const DISTANCES: Record<Exclude<Metric, 'dot-product'>, string> = {
  cosine: 'vec_distance_cosine(value, ?)',
  euclidean: 'vec_distance_L2(value, ?)',
};

/** The number of bits that differ, with a parameter for the searched code. */
const CODE_DISTANCE = 'vec_distance_hamming(vec_bit(code), vec_bit(?))';

function candidatesOfCondition({ property, any, none, bounds, isMissing }: Condition): Candidates {
  const all = 'SELECT vector FROM indexed WHERE property = ?';
  if (isMissing) return { sql: `number NOT IN (${all})`, values: [property] };
  const parts: Candidates[] = [];
  if (any !== undefined)
    parts.push({ sql: `number IN (${all} AND value IN (${marks(any)}))`, values: [property, ...any] });
  if (none !== undefined)
    parts.push({ sql: `number NOT IN (${all} AND value IN (${marks(none)}))`, values: [property, ...none] });
  if (bounds.length > 0)
    parts.push({
      sql: `number IN (${all} AND ${bounds.map(({ operator }) => `value ${operator} ?`).join(' AND ')})`,
      values: [property, ...bounds.map(({ value }) => value)],
    });
  return joined(parts);
}

function joined(parts: Candidates[]): Candidates {
  return { sql: parts.map(({ sql }) => sql).join(' AND '), values: parts.flatMap(({ values }) => values) };
}

const marks = (values: unknown[]) => values.map(() => '?').join(', ');

/** The distance of the metric `dot-product`: the smaller, the nearer. */
function negativeDot(left: Float32Array, right: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < left.length; at++) sum += left[at]! * right[at]!;
  return -sum;
}

/** Returns a bit for each dimension: whether the vector is above the mean there. */
function codeOf(value: Float32Array, center: Float32Array, metric: Metric): Buffer {
  const scale = scaleOf(value, metric);
  const code = Buffer.alloc(Math.ceil(value.length / 8));
  for (let at = 0; at < value.length; at++)
    if (value[at]! * scale > center[at]!) code[at >> 3]! |= 1 << (at & 7);
  return code;
}

/** Returns the factor by which a vector is multiplied: `cosine` compares directions alone, so it ignores lengths. */
function scaleOf(value: Float32Array, metric: Metric): number {
  if (metric !== 'cosine') return 1;
  let sum = 0;
  for (let at = 0; at < value.length; at++) sum += value[at]! * value[at]!;
  return sum === 0 ? 0 : 1 / Math.sqrt(sum);
}

/** Returns the numbers of a stored vector. */
export function floatsOf(bytes: Buffer): Float32Array {
  const isAligned = bytes.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0;
  const { buffer, byteOffset, length } = isAligned ? bytes : Buffer.from(new Uint8Array(bytes).buffer);
  return new Float32Array(buffer, byteOffset, length / Float32Array.BYTES_PER_ELEMENT);
}

function bytesOf(value: Float32Array): Buffer {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
