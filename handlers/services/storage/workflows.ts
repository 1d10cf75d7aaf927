// Workflows of an app. Instances are read like other storage, and changed by processes of the app.
import { requireApp } from '../apps/apps.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import { pageOf } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'workflows.list'> = async (context, { id, ...page }) => {
  const app = await requireApp(context, id);
  const items = await context.host.workflows.list(app.id);
  return pageOf(`workflows.list ${app.id}`, items, ({ name }) => name, page);
};

const instances: Service<'workflows.instances.list'> = async (context, { id, cursor, ...asked }) => {
  const app = await requireApp(context, id);
  const { workflow, status = null, limit } = asked;
  const name = `workflows.instances.list ${app.id} ${workflow} ${status}`;
  const after = decodeCursor(name, cursor, 1)?.[0] ?? null;
  const { items, next } = await context.host.workflows.instances(app.id, { workflow, status, limit, after });
  return { items, next_cursor: encodeCursor(name, next === null ? null : [next]) };
};

const get: Service<'workflows.instances.get'> = async (context, { id, workflow, instance }) => {
  const app = await requireApp(context, id);
  return context.host.workflows.instance(app.id, { workflow, instance });
};

const create: Service<'workflows.instances.create'> = async (context, { id, workflow, instance, params }) => {
  const app = await requireApp(context, id);
  const asked = { workflow, action: 'create', instance: instance ?? null, params: params ?? {} } as const;
  return (await context.host.workflows.act(app.id, asked))!;
};

/** Services of the operations whose only parameter is the instance. */
function change(action: 'pause' | 'resume'): Service<'workflows.instances.pause'> {
  return async (context, { id, workflow, instance }) => {
    const app = await requireApp(context, id);
    return (await context.host.workflows.act(app.id, { workflow, action, instance }))!;
  };
}

const terminate: Service<'workflows.instances.terminate'> = async (context, { id, rollback, ...asked }) => {
  const app = await requireApp(context, id);
  const action = { ...asked, action: 'terminate', options: { rollback } } as const;
  return (await context.host.workflows.act(app.id, action))!;
};

const restart: Service<'workflows.instances.restart'> = async (context, { id, from = null, ...asked }) => {
  const app = await requireApp(context, id);
  const action = { ...asked, action: 'restart', options: { from } } as const;
  return (await context.host.workflows.act(app.id, action))!;
};

const sendEvent: Service<'workflows.instances.send_event'> = async (context, { id, payload, ...asked }) => {
  const app = await requireApp(context, id);
  const event = { ...asked, action: 'send_event', payload: payload ?? null } as const;
  return (await context.host.workflows.act(app.id, event))!;
};

const remove: Service<'workflows.instances.delete'> = async (context, { id, workflow, instance }) => {
  const app = await requireApp(context, id);
  await context.host.workflows.act(app.id, { workflow, action: 'delete', instance });
  return null;
};

export const workflowServices = {
  'workflows.list': list,
  'workflows.instances.list': instances,
  'workflows.instances.get': get,
  'workflows.instances.create': create,
  'workflows.instances.pause': change('pause'),
  'workflows.instances.resume': change('resume'),
  'workflows.instances.terminate': terminate,
  'workflows.instances.restart': restart,
  'workflows.instances.send_event': sendEvent,
  'workflows.instances.delete': remove,
};
