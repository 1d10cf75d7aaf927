// Secrets of Workers. The host keeps them: nothing of them stays in the control plane.
import { Problem } from '../problem.ts';
import { requireApp } from './apps.ts';
import { encodeCursor } from './cursor.ts';
import { pageAfter } from './paging.ts';
import { Replaced, type Service } from './types.ts';

const list: Service<'secrets.list'> = async (context, { id, ...page }) => {
  const app = await requireApp(context, id);
  const cursor = `secrets.list ${app.id}`;
  const { after, limit } = pageAfter(cursor, page);
  const { items } = await context.host.secrets(app.id);
  const rest = items.filter(({ name }) => name > after);
  const shown = rest.slice(0, limit);
  const last = shown.at(-1);
  const next = rest.length > limit && last ? [last.name] : null;
  return { items: shown, next_cursor: encodeCursor(cursor, next) };
};

const set: Service<'secrets.set'> = async (context, { id, name, value }) => {
  const app = await requireApp(context, id);
  const { items, replaced, in_effect, problem } = await context.host.changeSecrets(app.id, { [name]: value });
  const record = items.find((item) => item.name === name);
  // Somebody has deleted it meanwhile.
  if (record === undefined) throw new Problem('secret_not_found');
  const output = { ...record, in_effect, problem };
  return replaced.includes(name) ? new Replaced(output) : output;
};

const remove: Service<'secrets.delete'> = async (context, { id, name }) => {
  const app = await requireApp(context, id);
  const { replaced } = await context.host.changeSecrets(app.id, { [name]: null });
  if (!replaced.includes(name)) throw new Problem('secret_not_found', `The app has no secret ${name}.`);
  return null;
};

export const secretServices = {
  'secrets.list': list,
  'secrets.set': set,
  'secrets.delete': remove,
};
