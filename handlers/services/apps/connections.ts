// Connections of apps to repositories on other servers, such as GitHub. The host keeps them, with their keys.
import type { Env } from '../../env.ts';
import { forgetKey } from '../../hooks/keys.ts';
import type { Service } from '../types.ts';

const get: Service<'source.get'> = async ({ host, env }, { id }) => {
  const connection = await host.call('GET /apps/:id/connection', { id });
  return { ...connection, webhook_url: webhookUrl(env, id) };
};

const connect: Service<'source.connect'> = async ({ host, env }, { id, ...settings }) => {
  const body = { ...settings, secret: settings.secret ?? null, token: settings.token ?? null };
  const connection = await host
    .call('PUT /apps/:id/connection', { id }, { body })
    .finally(() => forgetKey(id));
  return { ...connection, webhook_url: webhookUrl(env, id) };
};

const disconnect: Service<'source.disconnect'> = ({ host }, { id }) =>
  host.call('DELETE /apps/:id/connection', { id }).finally(() => forgetKey(id));

const sync: Service<'source.sync'> = ({ host }, { id, ref = null }) =>
  host.call('POST /apps/:id/connection/sync', { id }, { body: { ref } });

const approve: Service<'source.approve'> = ({ host }, { id, number, sha }) =>
  host.call('POST /apps/:id/connection/approve', { id }, { body: { number, sha } });

export const connectionServices = {
  'source.approve': approve,
  'source.get': get,
  'source.connect': connect,
  'source.disconnect': disconnect,
  'source.sync': sync,
};

function webhookUrl(env: Env, id: string): string {
  return `${env.PUBLIC_API_URL}/v1/hooks/${id}`;
}
