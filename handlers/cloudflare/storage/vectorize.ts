// Calls about Vectorize: indexes, their vectors, and the metadata properties by which queries may filter.
import * as z from 'zod';
import { operationsByName } from '../../contract/index.ts';
import { writeBody } from '../../services/storage/vectors.ts';
import { type CallContext, call, Page, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { findKept, type Kept, keptOf, nameOfNew, numberedPage } from './kept.ts';

const INDEXES = '/accounts/:account/vectorize/v2/indexes';
const INDEX = `${INDEXES}/:index`;
/** Dimensions of the models that Wrangler accepts as presets. The metric of each preset is `cosine`. */
const PRESETS: Record<string, number> = {
  '@cf/baai/bge-small-en-v1.5': 384,
  '@cf/baai/bge-base-en-v1.5': 768,
  '@cf/baai/bge-large-en-v1.5': 1024,
  'openai/text-embedding-ada-002': 1536,
  'cohere/embed-multilingual-v2.0': 768,
};
const COSINE = 'cosine';

const Config = z.union([
  z.object({ dimensions: z.int().min(1).max(1_536), metric: z.enum([COSINE, 'euclidean', 'dot-product']) }),
  z
    .object({ preset: z.enum(Object.keys(PRESETS)) })
    .transform(({ preset }) => ({ dimensions: PRESETS[preset]!, metric: COSINE })),
]);
/** Arguments of a call. The host's vectors service checks them. */
const Arguments = z.record(z.string().max(64), z.unknown());

export const vectorizeCalls = [
  call({
    method: 'GET',
    path: INDEXES,
    as: 'storage.vectorize.read',
    answer: async (context) => {
      const { items, info } = numberedPage(context, await keptOf(context, 'vector_indexes'));
      const described: Awaited<ReturnType<typeof shown>>[] = [];
      // Describes one index after another, because concurrent calls to an app are limited.
      for (const kept of items as Kept[]) described.push(await shown(context, kept));
      return new Page(described, info);
    },
  }),
  call({
    method: 'POST',
    path: INDEXES,
    as: 'apps.create',
    body: z.object({ name: nameOfNew, description: z.string().max(1_000).default(''), config: Config }),
    answer: async (context, { name, description, config }) => {
      const writing = { ...context, as: operationsByName.get('storage.vectorize.write')! };
      const all = await keptOf(writing, 'vector_indexes');
      if (all.some((each) => each.name === name || each.id === name)) {
        const { app, id: index } = await findKept(writing, 'vector_indexes', name);
        // A call that creates storage writes no entry in the audit log, so the operation writes its own.
        const { isAudited: _, ...unaudited } = context;
        await run(unaudited, 'storage.vectorize.write', {
          id: app.id,
          index,
          call: 'configure',
          arguments: config,
        });
      } else if (config.metric !== COSINE)
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          `The index ${name} does not exist yet: deploy the app that binds it, and then set the metric ${config.metric} by this command.`,
        );
      return { name, description, config, created_on: context.at, modified_on: context.at };
    },
  }),
  call({
    method: 'GET',
    path: INDEX,
    as: 'storage.vectorize.read',
    answer: async (context) => shown(context, await found(context)),
  }),
  reading('GET', 'info', 'info'),
  reading('POST', 'query', 'query'),
  reading('POST', 'get_by_ids', 'getByIds'),
  reading('GET', 'metadata_index/list', 'properties'),
  call({
    method: 'GET',
    path: `${INDEX}/list`,
    as: 'storage.vectorize.read',
    answer: async (context) => {
      const { searchParams } = context.url;
      const count = searchParams.get('count');
      const cursor = searchParams.get('cursor');
      const asked = { ...(count !== null && { count: Number(count) }), ...(cursor !== null && { cursor }) };
      return read(context, await found(context), 'list', asked);
    },
  }),
  writing('delete_by_ids', 'deleteByIds'),
  writing('metadata_index/create', 'addProperty'),
  writing('metadata_index/delete', 'removeProperty'),
  inserting('insert'),
  inserting('upsert'),
];

type Read = Parameters<typeof read>[2];

function reading(method: 'GET' | 'POST', path: string, operation: Read) {
  return call({
    method,
    path: `${INDEX}/${path}`,
    as: 'storage.vectorize.read',
    ...(method === 'POST' && { body: Arguments }),
    answer: async (context, given: z.output<typeof Arguments> | undefined) =>
      read(context, await found(context), operation, given),
  });
}

function writing(path: string, operation: 'deleteByIds' | 'addProperty' | 'removeProperty') {
  return call({
    method: 'POST',
    path: `${INDEX}/${path}`,
    as: 'storage.vectorize.write',
    body: Arguments,
    answer: async (context, given) => {
      const { app, id: index } = await found(context);
      return run(context, 'storage.vectorize.write', {
        id: app.id,
        index,
        call: operation,
        arguments: given,
      });
    },
  });
}

/** Declares a call that adds vectors. It streams the body to the host, because the body may be large. */
function inserting(operation: 'insert' | 'upsert') {
  return call({
    method: 'POST',
    path: `${INDEX}/${operation}`,
    as: 'storage.vectorize.write',
    answer: async (context) => {
      const { app, id: index } = await found(context);
      const { headers, body } = context.request;
      const type = headers.get('content-type') ?? 'application/x-ndjson';
      return writeBody(context, { id: app.id, index, call: operation }, body ?? new Blob([]).stream(), type);
    },
  });
}

function found(context: CallContext): Promise<Kept> {
  return findKept(context, 'vector_indexes', context.words.index!);
}

function read(
  context: CallContext,
  { app, id: index }: Kept,
  operation: 'info' | 'query' | 'getByIds' | 'list' | 'settings' | 'properties',
  given: z.output<typeof Arguments> = {},
) {
  return run(context, 'storage.vectorize.read', { id: app.id, index, call: operation, arguments: given });
}

async function shown(context: CallContext, kept: Kept) {
  const config = await read(context, kept, 'settings');
  if (!('metric' in config)) throw new Error('the host returned no settings of the vector index');
  const { name, app } = kept;
  return {
    name,
    description: '',
    config: { dimensions: config.dimensions, metric: config.metric },
    created_on: app.created_at,
    modified_on: app.created_at,
  };
}
