// Calls about secrets and crons of Workers.
import * as z from 'zod';
import { appCall, type CallContext, run } from '../call.ts';
import { changeSecrets, changeTriggers } from './deploying.ts';

const SCRIPT = '/accounts/:account/workers/scripts/:script';
const TYPE = 'secret_text';
const Secret = z.object({ name: z.string(), text: z.string(), type: z.literal(TYPE) });

export const secretCalls = [
  appCall({
    method: 'GET',
    path: `${SCRIPT}/secrets`,
    as: 'secrets.list',
    answer: (context, _body, app) => secretsOf(context, app.id),
  }),
  appCall({
    method: 'PUT',
    path: `${SCRIPT}/secrets`,
    as: 'secrets.set',
    body: Secret,
    answer: async (context, { name, text }, app) => {
      await changeSecrets(context, app.id, { [name]: text });
      return { name, type: TYPE };
    },
  }),
  appCall({
    method: 'PATCH',
    path: `${SCRIPT}/secrets-bulk`,
    as: 'secrets.set',
    body: z.object({ secrets: z.record(z.string(), Secret.nullable()) }),
    answer: async (context, { secrets }, app) => {
      const changes = Object.entries(secrets).map(([name, secret]) => [name, secret?.text ?? null]);
      await changeSecrets(context, app.id, Object.fromEntries(changes));
      return Object.keys(secrets).map((name) => ({ name, type: TYPE }));
    },
  }),
  appCall({
    method: 'DELETE',
    path: `${SCRIPT}/secrets/:secret`,
    as: 'secrets.delete',
    answer: (context, _body, app) =>
      run(context, 'secrets.delete', { id: app.id, name: context.words.secret! }),
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/schedules`,
    as: 'crons.list',
    answer: async ({ host }, _body, app) =>
      shown((await host.call('GET /apps/:id/release', { id: app.id }))?.crons ?? []),
  }),
  appCall({
    method: 'PUT',
    path: `${SCRIPT}/schedules`,
    as: 'deploys.create',
    body: z.array(z.object({ cron: z.string().trim().min(1).max(100) })).max(100),
    answer: async (context, schedules, app) => {
      const crons = [...new Set(schedules.map(({ cron }) => cron))];
      await changeTriggers(context, app.id, { crons });
      return shown(crons);
    },
  }),
];

/** Returns an app's secrets, in Cloudflare's format of bindings. @throws {Problem} `forbidden` */
export async function secretsOf(context: CallContext, id: string): Promise<{ name: string; type: string }[]> {
  const { items } = await run(context, 'secrets.list', { id, limit: 200 });
  return items.map(({ name }) => ({ name, type: TYPE }));
}

function shown(crons: string[]) {
  return { schedules: crons.map((cron) => ({ cron })) };
}
