// Operations on a vector index. They run in a thread of the service, because a tenant's data decides how long they take.
import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  floatsOf,
  type Match,
  type Metric,
  MissingExtension,
  openVectorIndex,
  type PropertyType,
  type VectorIndex,
} from '../../sqlite/storage/vectors.ts';
import { isDiskFull } from '../disk/disk.ts';
import { jsonOf, numbersOf, vectorsOf } from './batches.ts';
import { diskFull, failed, invalid, notFound } from './errors.ts';
import { conditionsOf, indexedValues, isObject, metadataAt } from './filter.ts';
import {
  BATCH,
  DIMENSIONS,
  IDS,
  PAGE,
  PROPERTIES,
  RESULTS,
  USUAL_PAGE,
  USUAL_RESULTS,
  VECTORS,
  WHOLE_RESULTS,
} from './limits.ts';

const METRICS: readonly Metric[] = ['cosine', 'euclidean', 'dot-product'];
const TYPES: readonly PropertyType[] = ['string', 'number', 'boolean'];
/** The largest 32-bit float. Larger scores become this number, because JSON has no infinity. */
const LARGEST_FLOAT = (2 - 2 ** -23) * 2 ** 127;
const PROPERTY = /^(?!\$)[^."\s][^"]{0,511}$/;

export interface VectorsCall {
  /** The path of the index's file. */
  file: string;
  /** The path of the URL without its slash, such as `query`. */
  operation: string;
  contentType: string;
  body: Uint8Array;
}

/** A stored vector, without a distance. */
type Row = Omit<Match, 'distance'>;

/**
 * Runs an operation of an index. Creates the index if it is missing.
 * @returns the answer as JSON
 * @throws {VectorsError} for an invalid call, a full disk, or a missing SQLite extension
 */
export async function operate({ file, operation, contentType, body }: VectorsCall): Promise<string> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  let index: VectorIndex | null = null;
  try {
    index = openVectorIndex(file);
    return JSON.stringify(await operated(index, operation, Buffer.from(body), contentType));
  } catch (error) {
    if (error instanceof MissingExtension) throw failed(error.message);
    if (isDiskFull(error)) throw diskFull('the disk of this machine is full');
    throw error;
  } finally {
    index?.close();
  }
}

async function operated(
  index: VectorIndex,
  operation: string,
  body: Buffer,
  contentType: string,
): Promise<object> {
  if (operation === 'info') return infoOf(index);
  if (operation === 'insert' || operation === 'upsert') {
    const vectors = await vectorsOf(body, contentType, index.settings().dimensions);
    return write(index, vectors, operation === 'upsert');
  }
  const asked = body.length === 0 ? {} : jsonOf(body.toString('utf8'), 'the body');
  if (!isObject(asked)) throw invalid('the body must be an object');
  switch (operation) {
    case 'query':
      // A snapshot, because the rows must not change while the query reads them.
      return index.snapshot(() => query(index, asked));
    case 'getByIds':
      return idsOf(asked, IDS).flatMap((id) => {
        const row = index.vector(id);
        return row === undefined ? [] : described(row);
      });
    case 'deleteByIds':
      return mutation(index, () => {
        for (const id of idsOf(asked, BATCH)) index.remove(id);
      });
    case 'list':
      return list(index, asked);
    case 'settings':
      return settingsOf(index);
    case 'configure':
      return configure(index, asked);
    case 'properties':
      return {
        metadataIndexes: index
          .properties()
          .map(({ name, type }) => ({ propertyName: name, indexType: type })),
      };
    case 'addProperty':
      return addProperty(index, asked);
    case 'removeProperty':
      return mutation(index, () => {
        const name = String(asked.propertyName);
        if (!index.removeProperty(name)) throw notFound(`propertyName: ${name} is not indexed`);
      });
    default:
      throw notFound(`the index has no operation ${operation}`);
  }
}

function infoOf(index: VectorIndex): object {
  const { dimensions, mutation, mutated } = index.settings();
  return {
    vectorCount: index.count(),
    dimensions: dimensions ?? 0,
    ...(mutation !== null && {
      processedUpToDatetime: new Date(mutated!).toISOString(),
      processedUpToMutation: mutation,
    }),
  };
}

/** Changes the index in one transaction. @returns the id of the change, as Cloudflare does */
function mutation(index: VectorIndex, change: () => void): { mutationId: string } {
  const mutationId = randomUUID();
  index.transaction(() => {
    change();
    index.setMutation(mutationId);
  });
  return { mutationId };
}

function write(
  index: VectorIndex,
  vectors: Awaited<ReturnType<typeof vectorsOf>>,
  replaces: boolean,
): { mutationId: string } {
  return mutation(index, () => {
    const { dimensions, metric } = index.settings();
    const [{ value: first }] = vectors as [(typeof vectors)[number]];
    // The dimensions are checked again: another call may have set them since `vectorsOf` checked the vectors.
    if (dimensions === null) index.setSettings(first.length, metric);
    else numbersOf([...first], dimensions, `vector ${JSON.stringify(vectors[0]!.id)}`);
    const properties = index.properties();
    for (const { id, namespace, metadata, value } of vectors) {
      if (replaces) index.remove(id);
      else if (index.vector(id) !== undefined) continue;
      const known =
        metadata === null || properties.length === 0
          ? null
          : (JSON.parse(metadata) as Record<string, unknown>);
      index.add({ id, namespace, metadata, value }, indexedValues(known, properties));
    }
    if (index.count() > VECTORS) throw invalid(`an index may have at most ${VECTORS} vectors`);
    index.makeCodes();
  });
}

function query(index: VectorIndex, asked: Record<string, unknown>): object {
  const { vector, vectorId, topK = USUAL_RESULTS, namespace = null, filter, returnValues = false } = asked;
  const returned = metadataLevel(asked.returnMetadata);
  const most = returnValues === true || returned === 'all' ? WHOLE_RESULTS : RESULTS;
  if (typeof topK !== 'number' || !Number.isInteger(topK) || topK < 1 || topK > most)
    throw invalid(
      `topK: must be 1 to ${most}${most === RESULTS ? '' : ', with values or all metadata'}, and is ${JSON.stringify(topK)}`,
    );
  if (namespace !== null && typeof namespace !== 'string') throw invalid('namespace: must be a text');
  const { dimensions, metric } = index.settings();
  const value =
    vectorId === undefined
      ? numbersOf(vector, dimensions, 'query')
      : floatsOf(required(index, vectorId).value);
  const conditions = conditionsOf(filter, index.properties());
  const matches = index.search({ value, count: topK, namespace, conditions }).map((row) => ({
    id: row.id,
    score: scoreOf(row.distance, metric),
    ...(row.namespace !== null && { namespace: row.namespace }),
    ...(returnValues === true && { values: [...floatsOf(row.value)] }),
    ...metadataOf(index, row, returned),
  }));
  return { count: matches.length, matches };
}

type MetadataLevel = 'none' | 'indexed' | 'all';

function metadataLevel(asked: unknown = 'none'): MetadataLevel {
  if (typeof asked === 'boolean') return asked ? 'all' : 'none';
  if (asked === 'none' || asked === 'indexed' || asked === 'all') return asked;
  throw invalid('returnMetadata: must be "none", "indexed" or "all"');
}

function metadataOf(index: VectorIndex, { number, metadata }: Row, level: MetadataLevel): object {
  if (level === 'none' || metadata === null) return {};
  const whole = JSON.parse(metadata) as Record<string, unknown>;
  return { metadata: level === 'all' ? whole : metadataAt(whole, index.indexedOf(number)) };
}

/**
 * Returns a score as Cloudflare does: the cosine, the distance, or the negative dot product. The cosine is 0 for a vector
 * without a direction: all its numbers are 0, or its length is outside of the range of 32-bit floats.
 */
function scoreOf(distance: number | null, metric: Metric): number {
  if (metric === 'cosine') return distance === null || !Number.isFinite(distance) ? 0 : 1 - distance;
  return Math.min(distance!, LARGEST_FLOAT);
}

function required(index: VectorIndex, id: unknown): Row {
  const row = typeof id === 'string' ? index.vector(id) : undefined;
  if (row === undefined) throw notFound(`vectorId: the index has no vector ${JSON.stringify(id)}`);
  return row;
}

function described({ id, namespace, metadata, value }: Row) {
  return {
    id,
    values: [...floatsOf(value)],
    ...(namespace !== null && { namespace }),
    ...(metadata !== null && { metadata: JSON.parse(metadata) as unknown }),
  };
}

function idsOf({ ids }: Record<string, unknown>, most: number): string[] {
  if (!Array.isArray(ids) || !ids.every((id) => typeof id === 'string'))
    throw invalid('ids: must be a list of texts');
  if (ids.length > most) throw invalid(`ids: one call may name at most ${most}`);
  return ids;
}

function list(index: VectorIndex, { count = USUAL_PAGE, cursor = '' }: Record<string, unknown>): object {
  if (typeof count !== 'number' || !Number.isInteger(count) || count < 1 || count > PAGE)
    throw invalid(`count: must be 1 to ${PAGE}`);
  const ids = index.page(String(cursor), count + 1);
  const isTruncated = ids.length > count;
  const shown = ids.slice(0, count);
  return {
    count: shown.length,
    totalCount: index.count(),
    isTruncated,
    ...(isTruncated && { nextCursor: shown.at(-1) }),
    vectors: shown.map((id) => ({ id })),
  };
}

function settingsOf(index: VectorIndex): object {
  const { dimensions, metric } = index.settings();
  return { dimensions: dimensions ?? 0, metric, vectors: index.count(), bytes: index.bytes() };
}

/** Sets the dimensions and the metric of an index. @throws {VectorsError} when an index with vectors has others */
function configure(index: VectorIndex, { dimensions, metric }: Record<string, unknown>): object {
  if (
    typeof dimensions !== 'number' ||
    !Number.isInteger(dimensions) ||
    dimensions < 1 ||
    dimensions > DIMENSIONS
  )
    throw invalid(`dimensions: must be 1 to ${DIMENSIONS}`);
  const chosen = METRICS.find((each) => each === metric);
  if (chosen === undefined) throw invalid(`metric: must be one of ${METRICS.join(', ')}`);
  index.transaction(() => {
    const now = index.settings();
    if (now.dimensions === dimensions && now.metric === chosen) return;
    if (index.count() > 0)
      throw invalid(
        `the index has vectors: it stays at ${now.dimensions} dimensions and the metric ${now.metric}`,
      );
    index.setSettings(dimensions, chosen);
  });
  return settingsOf(index);
}

function addProperty(index: VectorIndex, { propertyName: name, indexType }: Record<string, unknown>): object {
  const type = TYPES.find((each) => each === indexType);
  if (type === undefined) throw invalid(`indexType: must be one of ${TYPES.join(', ')}`);
  if (typeof name !== 'string' || !PROPERTY.test(name))
    throw invalid('propertyName: must be a name without quotes, that begins with neither $ nor a dot');
  return mutation(index, () => {
    const all = index.properties();
    if (all.some((each) => each.name === name)) throw invalid(`propertyName: ${name} is indexed already`);
    if (all.length >= PROPERTIES) throw invalid(`an index may have at most ${PROPERTIES} metadata indexes`);
    index.addProperty(name, type);
  });
}
