// The cron triggers and queues of a Wrangler configuration. Consumers' settings have the same limits as on Cloudflare.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { QueueConsumer, Triggers } from '../release.ts';

type Consumer = NonNullable<WranglerConfig['queues']['consumers']>[number];

/** Minimum and maximum of a consumer's settings. `max_batch_timeout` and `retry_delay` are in seconds. */
export const CONSUMER_RANGES = {
  max_batch_size: [1, 100],
  max_batch_timeout: [0, 60],
  max_retries: [0, 100],
  retry_delay: [0, 86_400],
  max_concurrency: [1, 250],
} as const;

/**
 * Returns the crons, and the queues that the Worker sends to or consumes.
 * @param file the configuration's name in messages
 * @param notes receives lines for the deploy's log
 * @returns the triggers; `null` for a configuration without triggers
 * @throws {BuildFailure} when there is no Worker, a queue has two consumers, or a setting is out of its range
 */
export function triggers(file: string, config: WranglerConfig, notes: string[]): Triggers | null {
  const crons = [...new Set((config.triggers.crons ?? []).map((cron) => cron.trim()))];
  const { producers: sending = [], consumers = [] } = config.queues;
  const producers = sending.map(({ binding, queue }) => ({ binding, queue: queue ?? binding }));
  if (crons.length + producers.length + consumers.length === 0) return null;
  if (config.main === undefined) {
    throw new BuildFailure(
      `${file}: ${crons.length > 0 ? 'triggers.crons' : 'queues'}: the project has no Worker; set "main" to its file`,
    );
  }
  const deadLetters = consumers.map((consumer) => consumer.dead_letter_queue);
  const fed = new Set([...producers.map(({ queue }) => queue), ...deadLetters]);
  const consumed = new Set<string>();
  for (const consumer of consumers) {
    const where = `${file}: queues.consumers: ${consumer.queue}`;
    if (consumed.has(consumer.queue)) throw new BuildFailure(`${where} occurs twice; remove one`);
    if (!fed.has(consumer.queue))
      notes.push(
        `${where}: nothing in this project sends to this queue; the owner's other apps can send to it with a binding`,
      );
    checkRanges(where, consumer);
    consumed.add(consumer.queue);
  }
  return { crons, producers, consumers: consumers.map(queueConsumer) };
}

function checkRanges(where: string, consumer: Consumer): void {
  for (const [key, [least, most]] of Object.entries(CONSUMER_RANGES)) {
    const value = consumer[key as keyof typeof CONSUMER_RANGES] ?? least;
    if (!Number.isInteger(value) || value < least || value > most)
      throw new BuildFailure(`${where}: ${key} must be a whole number from ${least} to ${most}`);
  }
}

function queueConsumer(consumer: Consumer): QueueConsumer {
  const settings = {
    maxBatchSize: consumer.max_batch_size,
    maxBatchTimeout: consumer.max_batch_timeout,
    maxRetries: consumer.max_retries,
    retryDelay: consumer.retry_delay,
    maxConcurrency: consumer.max_concurrency,
    deadLetterQueue: consumer.dead_letter_queue,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return { queue: consumer.queue, ...Object.fromEntries(given) };
}
