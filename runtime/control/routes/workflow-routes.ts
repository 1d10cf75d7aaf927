// The handlers' calls about the Workflows of an app.
import { errorCodes } from '../../../handlers/contract/errors.ts';
import type { HostCall, HostCalls } from '../../../handlers/contract/host/host-routes.ts';
import type { WorkflowAction } from '../../../handlers/contract/host/host-storage.ts';
import { INSTANCE_STATUSES } from '../../../handlers/contract/storage/workflows.ts';
import type { Apps } from '../../apps/apps.ts';
import type { LeasedCell } from '../../fleets/admission/leasing.ts';
import { reason } from '../../log.ts';
import { noSuchApp, Refusal } from '../../refusal.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import type { StorageQueries } from '../../storage/storage-queries.ts';
import { type HostRoutes, readJson } from '../host-call.ts';
import { readingAnswer, refuseReading } from './storage/storage-routes.ts';

export type WorkflowCall = Extract<HostCall, `${string}/workflows${string}`>;
type Acted = HostCalls['POST /apps/:id/workflows/act']['answer'];

/** Longest response of a process about an instance, in bytes: its status, or one message. */
const ANSWER_BYTES = 64 * 1024;

/** Maps workerd's error messages about Workflows to error codes. */
const REFUSED = [
  [/\(instance\.not_found\)|^instance\.not_found/, 'workflow_instance_not_found'],
  [/\(instance\.(?:already_exists|cannot_\w+)\)/, 'workflow_conflict'],
] as const;

/** Returns the routes. Responses of readers (processes that read an app's storage) are forwarded unchanged. */
export function workflowRoutes({
  apps,
  storageQueries,
}: {
  apps: Apps;
  storageQueries: StorageQueries;
}): Pick<HostRoutes, WorkflowCall> {
  const answer = readingAnswer(apps);
  return {
    'GET /apps/:id/workflows': answer((looker) => storageQueries.workflows(looker)),
    'POST /apps/:id/workflows/instances': answer(async (looker, { request }) =>
      storageQueries.instances(looker, await readJson<'POST /apps/:id/workflows/instances'>(request)),
    ),
    'POST /apps/:id/workflows/instance': answer(async (looker, { request }) =>
      storageQueries.instance(looker, await readJson<'POST /apps/:id/workflows/instance'>(request)),
    ),
    'POST /apps/:id/workflows/act': async ({ request, words }) => {
      const asked = await readJson<'POST /apps/:id/workflows/act'>(request);
      const app = apps.get(words[0]!);
      if (app === undefined) throw noSuchApp();
      const { binding } = await storageQueries.workflow(words[0]!, asked.workflow).catch(refuseReading);
      if (app.wanted.desired_state === 'stopped')
        throw new Refusal(503, 'app_unavailable', 'the app is stopped, and runs no Workflows');
      return app.fleet
        .withCell('a change of a Workflow', (cell) => act(cell, binding, asked))
        .catch((error: unknown) => {
          if (error instanceof Refusal) throw error;
          throw new Refusal(503, 'app_unavailable', reason(error));
        });
    },
  };
}

async function act(
  { socketPath, signal }: LeasedCell,
  binding: string,
  { workflow: _, ...asked }: WorkflowAction,
): Promise<Acted> {
  const body = JSON.stringify({ kind: 'workflow', binding, ...asked });
  const { status, text } = await askSocket(socketPath, {
    method: 'POST',
    body,
    limitBytes: ANSWER_BYTES,
    signal,
  });
  if (status !== 200 || text === null)
    throw new Error(`the process answered with status ${status} and no result`);
  const { done, failed } = JSON.parse(text) as { done?: Acted; failed?: unknown };
  if (failed !== undefined) throw refusal(String(failed));
  if (asked.action === 'delete') return null;
  // The response comes from the app's own process, so it is not trusted.
  const known = INSTANCE_STATUSES.find((each) => each === done?.status);
  if (known === undefined) throw new Error('the process answered with no status that is known');
  return { id: String(done!.id).slice(0, 100), status: known };
}

function refusal(message: string): Refusal {
  const words = message.replace(/^(?:\w+: )?\([\w.]+\) /, '');
  const code = REFUSED.find(([pattern]) => pattern.test(message))?.[1];
  if (code === undefined) return new Refusal(400, 'invalid_input', words);
  return new Refusal(
    errorCodes[code].status,
    code,
    code === 'workflow_instance_not_found' ? 'the Workflow has no such instance' : words,
  );
}
