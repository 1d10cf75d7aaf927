// Secrets of Workers. Only the host stores them, not the control plane.
import { Problem } from '../../problem.ts';
import { pageOf } from '../paging.ts';
import { Replaced, type Service } from '../types.ts';

const list: Service<'secrets.list'> = async (context, { id, ...page }) => {
  const { items } = await context.host.call('GET /apps/:id/secrets', { id });
  return pageOf(`secrets.list ${id}`, items, ({ name }) => name, page);
};

const set: Service<'secrets.set'> = async (context, { id, name, value }) => {
  const { items, replaced, in_effect, problem } = await context.host.call(
    'PATCH /apps/:id/secrets',
    { id },
    { body: { [name]: value } },
  );
  const record = items.find((item) => item.name === name);
  // A concurrent call has deleted the secret.
  if (record === undefined) throw new Problem('secret_not_found');
  const output = { ...record, in_effect, problem };
  return replaced.includes(name) ? new Replaced(output) : output;
};

const remove: Service<'secrets.delete'> = async (context, { id, name }) => {
  const body = { [name]: null };
  const { replaced } = await context.host.call('PATCH /apps/:id/secrets', { id }, { body });
  if (!replaced.includes(name)) throw new Problem('secret_not_found', `The app has no secret ${name}.`);
  return null;
};

export const secretServices = {
  'secrets.list': list,
  'secrets.set': set,
  'secrets.delete': remove,
};
