// The instances of an app's Workflows.
import { api, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type Instance = Result<'workflows.instances.list'>['items'][number];
export type InstanceStatus = Instance['status'];
export type Step = Result<'workflows.instances.get'>['steps'][number];
/** Actions on an instance that need no parameters. */
export type Verb = 'pause' | 'resume' | 'restart' | 'terminate';

const PAGE = 50;
const EVERY_MS = 5_000;

/** @param status of the instances to list; empty for all */
export function instancesModel(id: string, workflow: string, status: InstanceStatus | '') {
  const asked = { id, workflow, limit: PAGE, ...(status !== '' && { status }) };
  const list = pages<Instance>(
    (cursor, signal) => api('workflows.instances.list', { ...asked, cursor }, { signal }),
    (instance) => instance.id,
  );
  return {
    list,
    /** Creates an instance. @returns its id @throws {Failure} when the API refuses it */
    async create(instance: string, params: unknown): Promise<string> {
      const made = await api('workflows.instances.create', {
        id,
        workflow,
        params,
        ...(instance !== '' && { instance }),
      });
      await list.refresh();
      return made.id;
    },
    close: list.close,
  };
}

export function instanceModel(id: string, workflow: string, instance: string) {
  const named = { id, workflow, instance };
  const found = resource((signal) => api('workflows.instances.get', named, { signal }), {
    everyMs: EVERY_MS,
  });
  return {
    found,
    /** @throws {Failure} when the API refuses the action */
    async act(verb: Verb): Promise<void> {
      await api(`workflows.instances.${verb}`, named);
      await found.refresh();
    },
    /** @throws {Failure} when the API refuses the event */
    async send(type: string, payload: unknown): Promise<void> {
      await api('workflows.instances.send_event', { ...named, type, payload });
      await found.refresh();
    },
    delete: () => api('workflows.instances.delete', named),
    close: found.close,
  };
}

/** Returns the actions that a status allows. */
export function verbsOf(status: InstanceStatus): Verb[] {
  if (status === 'complete' || status === 'errored' || status === 'terminated') return ['restart'];
  if (status === 'paused' || status === 'waitingForPause') return ['resume', 'terminate'];
  return status === 'rollingBack' ? [] : ['pause', 'restart', 'terminate'];
}
