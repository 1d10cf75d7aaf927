// Workflows of an app. The host reads stored instances itself, like other storage. Only a process of the app changes them.
import type { Context } from '../../context.ts';
import type { WorkflowAction } from '../../contract/host/host-storage.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import { pageOf } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'workflows.list'> = async (context, { id, ...page }) => {
  const items = await context.host.call('GET /apps/:id/workflows', { id });
  return pageOf(`workflows.list ${id}`, items, ({ name }) => name, page);
};

const instances: Service<'workflows.instances.list'> = async (context, { id, cursor, ...asked }) => {
  const { workflow, status = null, limit } = asked;
  const [since, until] = [asked.since, asked.until].map((time) =>
    time === undefined ? null : Date.parse(time),
  );
  const name = `workflows.instances.list ${id} ${workflow} ${status} ${since} ${until}`;
  const after = decodeCursor(name, cursor, 1)?.[0] ?? null;
  const body = { workflow, status, since: since!, until: until!, limit, after };
  const { items, next } = await context.host.call('POST /apps/:id/workflows/instances', { id }, { body });
  return { items, next_cursor: encodeCursor(name, next === null ? null : [next]) };
};

const get: Service<'workflows.instances.get'> = (context, { id, workflow, instance }) =>
  context.host.call('POST /apps/:id/workflows/instance', { id }, { body: { workflow, instance } });

const create: Service<'workflows.instances.create'> = async (context, { id, workflow, instance, params }) => {
  const named = { workflow, instance: instance ?? null };
  return (await act(context, id, { ...named, action: 'create', params: params ?? {} }))!;
};

/** Returns the implementation of an action without options. */
function change(action: 'pause' | 'resume'): Service<'workflows.instances.pause'> {
  return async (context, { id, workflow, instance }) =>
    (await act(context, id, { workflow, action, instance }))!;
}

const terminate: Service<'workflows.instances.terminate'> = async (context, { id, rollback, ...asked }) =>
  (await act(context, id, { ...asked, action: 'terminate', options: { rollback } }))!;

const restart: Service<'workflows.instances.restart'> = async (context, { id, from = null, ...asked }) =>
  (await act(context, id, { ...asked, action: 'restart', options: { from } }))!;

const sendEvent: Service<'workflows.instances.send_event'> = async (context, { id, payload, ...asked }) =>
  (await act(context, id, { ...asked, action: 'send_event', payload: payload ?? null }))!;

const remove: Service<'workflows.instances.delete'> = async (context, { id, workflow, instance }) => {
  await act(context, id, { workflow, action: 'delete', instance });
  return null;
};

/** Has a process of the app create or change an instance. */
async function act(context: Context, id: string, body: WorkflowAction) {
  return context.host.call('POST /apps/:id/workflows/act', { id }, { body });
}

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
