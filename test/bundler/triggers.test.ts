import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

const refuses = (config: Record<string, unknown>, message: RegExp) =>
  assert.rejects(worktrees.bundle(wranglerProject(config)), { name: 'BuildFailure', message });

test('crons and queues are bundled with all their settings, and omitted ones add nothing', async () => {
  const { bundle, notes } = await worktrees.bundle(
    wranglerProject({
      triggers: { crons: ['*/5 * * * *', ' 0 5 * * SUN ', '*/5 * * * *'] },
      queues: {
        producers: [{ binding: 'JOBS', queue: 'jobs' }, { binding: 'bare' }],
        consumers: [
          {
            queue: 'jobs',
            type: 'worker',
            max_batch_size: 5,
            max_batch_timeout: 0,
            max_retries: 2,
            retry_delay: 30,
            max_concurrency: 4,
            dead_letter_queue: 'dead',
          },
          { queue: 'dead' },
          { queue: 'bare' },
        ],
      },
    }),
  );
  assert.deepEqual(bundle.triggers, {
    crons: ['*/5 * * * *', '0 5 * * SUN'],
    producers: [
      { binding: 'JOBS', queue: 'jobs' },
      { binding: 'bare', queue: 'bare' },
    ],
    consumers: [
      {
        queue: 'jobs',
        maxBatchSize: 5,
        maxBatchTimeout: 0,
        maxRetries: 2,
        retryDelay: 30,
        maxConcurrency: 4,
        deadLetterQueue: 'dead',
      },
      { queue: 'dead' },
      { queue: 'bare' },
    ],
  });
  assert.ok(!notes.some((note) => note.includes('queue')), notes.join('\n'));
});

test('a project without triggers has none in its bundle', async () => {
  const { bundle } = await worktrees.bundle(wranglerProject({ triggers: { crons: [] }, queues: {} }));
  assert.ok(!('triggers' in bundle));
});

test('a project may use a queue that another app feeds or consumes', async () => {
  await refuses(
    {
      queues: {
        producers: [{ binding: 'Q', queue: 'jobs' }],
        consumers: [{ queue: 'jobs' }, { queue: 'jobs' }],
      },
    },
    /queues\.consumers: jobs occurs twice/,
  );
  const { notes } = await worktrees.bundle(
    wranglerProject({
      queues: {
        producers: [{ binding: 'Q', queue: 'jobs', delivery_delay: 5 }],
        consumers: [{ queue: 'foreign' }],
      },
    }),
  );
  const text = notes.join('\n');
  assert.match(text, /queues\.consumers: foreign: nothing in this project sends to this queue/);
  assert.match(text, /"delivery_delay".* has no effect/);
});

test('settings that Cloudflare refuses are refused', async () => {
  const consumer = (settings: object) => ({
    queues: { producers: [{ binding: 'Q', queue: 'jobs' }], consumers: [{ queue: 'jobs', ...settings }] },
  });
  await refuses(
    consumer({ max_batch_size: 101 }),
    /jobs: max_batch_size must be a whole number from 1 to 100/,
  );
  await refuses(consumer({ max_batch_timeout: -1 }), /max_batch_timeout must be a whole number from 0 to 60/);
  await refuses(consumer({ retry_delay: 1.5 }), /retry_delay must be a whole number from 0 to 86400/);
  await refuses(consumer({ type: 'http_pull' }), /Only "worker" consumers/);
});

test('crons and queues need a Worker', async () => {
  const assets = { main: undefined, assets: { directory: '.' } };
  await refuses(
    { ...assets, triggers: { crons: ['* * * * *'] } },
    /triggers\.crons: the project has no Worker/,
  );
  await refuses(
    { ...assets, queues: { producers: [{ binding: 'Q', queue: 'jobs' }] } },
    /queues: the project has no Worker/,
  );
});
