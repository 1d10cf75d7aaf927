// Calls about queues. A queue has no settings of its own: apps send to its name, and the consumer's release has the
// settings.
import * as z from 'zod';
import { findAppBySlug } from '../../../sqlite/control/apps/apps.ts';
import { authorize } from '../../access.ts';
import type { QueueConsumer } from '../../contract/host/host-releases.ts';
import { type CallContext, call } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { changeTriggers } from '../workers/deploying.ts';
import { type Kept, keptPlaces, nameOfNew, noJurisdiction, numberedPage } from './kept.ts';

const QUEUES = '/accounts/:account/queues';

const Consumer = z.object({
  type: z.literal('worker', 'must be worker: Cellar has no pull consumers of queues').default('worker'),
  script_name: z.string(),
  dead_letter_queue: z.string().optional(),
  settings: z
    .object({
      batch_size: z.int().min(1).max(100).optional(),
      max_retries: z.int().min(0).max(100).optional(),
      max_wait_time_ms: z.int().min(0).max(60_000).optional(),
      max_concurrency: z.int().min(1).max(250).nullish(),
      retry_delay: z.int().min(0).max(86_400).optional(),
    })
    .default({}),
});

export const queueCalls = [
  call({
    method: 'GET',
    path: QUEUES,
    as: 'storage.overview',
    answer: async (context) => {
      const all = await queuesOf(context);
      const asked = context.url.searchParams.getAll('name');
      // A queue that Wrangler looks up by name is always reported to exist: the first deploy that binds it creates it.
      const named = asked.map(
        (name) => all.find(({ queue_name }) => queue_name === name) ?? shown(name, context.at, [], []),
      );
      return numberedPage(context, asked.length > 0 ? named : all);
    },
  }),
  call({
    method: 'POST',
    path: QUEUES,
    as: 'apps.create',
    body: z.object({
      queue_name: nameOfNew,
      jurisdiction: noJurisdiction,
      settings: z
        .undefined(
          'must be left out: a queue has no settings; its consumer has them in the configuration of the project',
        )
        .optional(),
    }),
    answer: async ({ at }, { queue_name }) => shown(queue_name, at, [], []),
  }),
  call({
    method: 'POST',
    path: `${QUEUES}/:queue/consumers`,
    as: 'deploys.create',
    body: Consumer,
    answer: (context, body) => setConsumer(context, body),
  }),
  call({
    method: 'PUT',
    path: `${QUEUES}/:queue/consumers/:consumer`,
    as: 'deploys.create',
    body: Consumer,
    answer: (context, body) => setConsumer(context, body),
  }),
  call({
    method: 'DELETE',
    path: `${QUEUES}/:queue/consumers/:consumer`,
    as: 'deploys.create',
    answer: async (context) => {
      const { queue, consumer } = context.words;
      const app = await appOf(context, consumer!);
      await changeTriggers(context, app, { without: queue! });
      return null;
    },
  }),
];

async function setConsumer(
  context: CallContext,
  { script_name, dead_letter_queue, settings }: z.output<typeof Consumer>,
) {
  const queue = context.words.queue!;
  const given = {
    queue,
    maxBatchSize: settings.batch_size,
    maxBatchTimeout: settings.max_wait_time_ms === undefined ? undefined : settings.max_wait_time_ms / 1000,
    maxRetries: settings.max_retries,
    retryDelay: settings.retry_delay,
    maxConcurrency: settings.max_concurrency ?? undefined,
    deadLetterQueue: dead_letter_queue,
  };
  const consumer = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const app = await appOf(context, script_name);
  const changed = consumer as unknown as QueueConsumer;
  await changeTriggers(context, app, { consumer: changed });
  return shownConsumer(script_name, changed);
}

/** Returns the id of the consuming app. Checks that the caller has the needed role on it. */
async function appOf(context: CallContext, slug: string): Promise<string> {
  const app = await findAppBySlug(context.reads, slug);
  if (app === null) throw new CloudflareError(404, CODES.SCRIPT_NOT_FOUND, `There is no app ${slug}.`);
  context.setApp(app);
  await authorize(context, context.as!, { id: app.id });
  return app.id;
}

async function queuesOf(context: CallContext) {
  const kept = await keptPlaces(context);
  const names = new Set(
    kept.flatMap(({ places }) => [...places.producers, ...places.consumers.map(({ queue }) => queue)]),
  );
  return [...names].sort().map((name) => {
    const producers = kept.filter(({ places }) => places.producers.includes(name)).map(({ app }) => app);
    const consumers = kept.flatMap(({ app, places }) =>
      places.consumers.filter(({ queue }) => queue === name).map((consumer) => ({ app, consumer })),
    );
    return shown(name, (producers[0] ?? consumers[0]!.app).created_at, producers, consumers);
  });
}

function shown(
  name: string,
  at: string,
  producers: Kept['app'][],
  consumers: { app: Kept['app']; consumer: QueueConsumer }[],
) {
  return {
    queue_id: name,
    queue_name: name,
    created_on: at,
    modified_on: at,
    producers: producers.map(({ slug }) => ({ type: 'worker', script: slug })),
    producers_total_count: producers.length,
    consumers: consumers.map(({ app, consumer }) => shownConsumer(app.slug, consumer)),
    consumers_total_count: consumers.length,
  };
}

function shownConsumer(
  slug: string,
  {
    queue,
    maxBatchSize,
    maxRetries,
    maxBatchTimeout,
    maxConcurrency,
    retryDelay,
    deadLetterQueue,
  }: QueueConsumer,
) {
  return {
    consumer_id: slug,
    type: 'worker',
    script: slug,
    queue_name: queue,
    dead_letter_queue: deadLetterQueue,
    settings: {
      batch_size: maxBatchSize,
      max_retries: maxRetries,
      max_wait_time_ms: maxBatchTimeout === undefined ? undefined : maxBatchTimeout * 1000,
      max_concurrency: maxConcurrency,
      retry_delay: retryDelay,
    },
  };
}
