// Calls about Workflows. A Workflow belongs to the app whose live release binds it.
import * as z from 'zod';
import type { Result } from '../../contract/index.ts';
import { INSTANCE_STATUSES, STEP_TYPES, type WorkflowStep } from '../../contract/storage/workflows.ts';
import { Problem } from '../../problem.ts';
import { invalidInput } from '../../transports/validate.ts';
import { type CallContext, call, Page, run } from '../call.ts';
import { asCloudflareError, CloudflareError, CODES } from '../codes.ts';
import { changeTriggers } from '../workers/deploying.ts';
import { findKept, findKeptBeforeDeploy, type Kept, keptOf, noJurisdiction, numberedPage } from './kept.ts';

const WORKFLOWS = '/accounts/:account/workflows';
const INSTANCES = `${WORKFLOWS}/:workflow/instances`;
/** Maximum instances deleted in one call, as on Cloudflare. */
const DELETE_LIMIT = 100;

const duration = z.union([z.int().min(1), z.string().min(1).max(100)]);
const Change = z.object({
  status: z.enum(['pause', 'resume', 'terminate', 'restart']),
  from: z
    .object({ name: z.string(), count: z.int().optional(), type: z.enum(STEP_TYPES).optional() })
    .optional(),
  rollback: z.boolean().optional(),
});

export const workflowCalls = [
  call({
    method: 'GET',
    path: WORKFLOWS,
    as: 'workflows.list',
    answer: async (context) => {
      const all = await keptOf(context, 'workflows');
      return numberedPage(context, await Promise.all(all.map((workflow) => shown(context, workflow))));
    },
  }),
  call({
    method: 'GET',
    path: `${WORKFLOWS}/:workflow`,
    as: 'workflows.list',
    answer: async (context) =>
      shown(context, await findKeptBeforeDeploy(context, 'workflows', context.words.workflow!)),
  }),
  call({
    method: 'GET',
    path: `${WORKFLOWS}/:workflow/versions`,
    as: 'workflows.list',
    answer: async (context) => {
      const workflow = await shown(context, await workflowOf(context));
      return [{ ...workflow, id: workflow.version_id, workflow_id: workflow.id }];
    },
  }),
  call({
    method: 'PUT',
    path: `${WORKFLOWS}/:workflow`,
    as: 'deploys.create',
    body: z.object({
      script_name: z.string(),
      class_name: z.string(),
      jurisdiction: noJurisdiction,
      limits: z.object({ steps: z.int().min(1).optional() }).optional(),
      default_retention: z
        .object({ success_retention: duration.optional(), error_retention: duration.optional() })
        .optional(),
      schedules: z
        .array(z.unknown())
        .max(
          0,
          'must be empty: Cellar does not run schedules of Workflows; create the instances in scheduled()',
        )
        .optional(),
    }),
    // The upload has already created the Workflow. This call changes only its settings.
    answer: async (context, { script_name, limits, default_retention }) => {
      const name = context.words.workflow!;
      const all = await keptOf(context, 'workflows');
      const found = all.find(({ id, app }) => id === name && app.slug === script_name);
      if (found === undefined)
        throw new CloudflareError(
          404,
          CODES.WORKFLOW_NOT_FOUND,
          `The live release of ${script_name} binds no Workflow ${name}.`,
        );
      const { success_retention: success, error_retention: error } = default_retention ?? {};
      const workflow = {
        name,
        ...(limits?.steps !== undefined && { steps: limits.steps }),
        ...(default_retention && {
          retention: { ...(success !== undefined && { success }), ...(error !== undefined && { error }) },
        }),
      };
      await changeTriggers(context, found.app.id, { workflow });
      return shown(context, found);
    },
  }),
  call({ method: 'GET', path: INSTANCES, as: 'workflows.instances.list', answer: listInstances }),
  call({ method: 'GET', path: `${INSTANCES}/`, as: 'workflows.instances.list', answer: listInstances }),
  call({
    method: 'POST',
    path: INSTANCES,
    as: 'workflows.instances.create',
    body: z.object({ instance_id: z.string().optional(), params: z.unknown().optional() }),
    answer: async (context, { instance_id: instance, params }) => {
      const { app, id: workflow } = await workflowOf(context);
      const made = await run(context, 'workflows.instances.create', {
        id: app.id,
        workflow,
        instance,
        params,
      });
      return { ...made, workflow_id: workflow, version_id: await versionOf(context, app) };
    },
  }),
  call({
    method: 'POST',
    path: `${INSTANCES}/batch/delete`,
    as: 'workflows.instances.delete',
    body: z.object({ instances: z.array(z.string()).min(1).max(DELETE_LIMIT) }),
    answer: async (context, { instances }) => deleteInstances(context, instances),
  }),
  call({
    method: 'GET',
    path: `${INSTANCES}/:instance`,
    as: 'workflows.instances.get',
    answer: async (context) =>
      described(await run(context, 'workflows.instances.get', await instanceOf(context))),
  }),
  call({
    method: 'PATCH',
    path: `${INSTANCES}/:instance/status`,
    as: 'workflows.instances.restart',
    body: Change,
    answer: async (context, { status, from, rollback }) => {
      const named = await instanceOf(context);
      const changed =
        status === 'terminate'
          ? await run(context, 'workflows.instances.terminate', { ...named, rollback: rollback ?? false })
          : status === 'restart'
            ? await run(context, 'workflows.instances.restart', { ...named, from })
            : await run(context, `workflows.instances.${status}`, named);
      return { status: changed.status, timestamp: context.at };
    },
  }),
  call({
    method: 'POST',
    path: `${INSTANCES}/:instance/events/:type`,
    as: 'workflows.instances.send_event',
    body: z.unknown(),
    answer: async (context, payload) => {
      const event = { ...(await instanceOf(context)), type: context.words.type!, payload };
      await run(context, 'workflows.instances.send_event', event);
      return {};
    },
  }),
];

function workflowOf(context: CallContext): Promise<Kept> {
  return findKept(context, 'workflows', context.words.workflow!);
}

async function instanceOf(context: CallContext): Promise<{ id: string; workflow: string; instance: string }> {
  const { app, id: workflow } = await workflowOf(context);
  return { id: app.id, workflow, instance: context.words.instance! };
}

async function versionOf(context: CallContext, { id }: Kept['app']): Promise<string | null> {
  return (await context.host.call('GET /apps/:id/release', { id }))?.deploy_id ?? null;
}

async function shown(context: CallContext, { name, id, app }: Kept) {
  const release = await context.host.call('GET /apps/:id/release', { id: app.id });
  const bound = release?.workflows.find((workflow) => workflow.name === id);
  return {
    id: name,
    name,
    script_name: app.slug,
    class_name: bound?.class_name ?? null,
    version_id: release?.deploy_id ?? null,
    created_on: app.created_at,
    modified_on: app.created_at,
  };
}

async function listInstances(context: CallContext) {
  const { searchParams } = context.url;
  const { app, id: workflow } = await workflowOf(context);
  const status = INSTANCE_STATUSES.find((each) => each === searchParams.get('status'));
  const page = await run(context, 'workflows.instances.list', {
    id: app.id,
    workflow,
    ...(status && { status }),
    since: timeIn(searchParams, 'date_start'),
    // Adds 1 ms, because Wrangler's range includes its end, and `until` does not.
    until: timeIn(searchParams, 'date_end', 1),
    limit: Math.min(200, Math.max(1, Math.floor(Number(searchParams.get('per_page') ?? 50)) || 50)),
    cursor: searchParams.get('cursor') ?? undefined,
  });
  const version_id = await versionOf(context, app);
  const items = page.items.map(({ id, status, created_at, changed_at }) => ({
    id,
    status,
    workflow_id: workflow,
    version_id,
    created_on: created_at,
    modified_on: changed_at,
  }));
  return new Page(items, { count: items.length, ...(page.next_cursor && { cursor: page.next_cursor }) });
}

/**
 * Returns the time in the query field `name`, plus `laterMs`; undefined when the field is missing.
 * @throws {Problem} `invalid_input` when the text is not a time
 */
function timeIn(query: URLSearchParams, name: string, laterMs = 0): string | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const at = new Date(Date.parse(text) + laterMs);
  if (Number.isNaN(at.getTime()))
    throw invalidInput([{ path: name, message: 'is not a time, such as 2026-01-31T13:00:00Z' }]);
  return at.toISOString();
}

async function deleteInstances(context: CallContext, instances: string[]) {
  const { app, id: workflow } = await workflowOf(context);
  const deleted: { id: string }[] = [];
  const errors: { id: string; code: number; message: string }[] = [];
  for (const instance of new Set(instances)) {
    try {
      await run(context, 'workflows.instances.delete', { id: app.id, workflow, instance });
      deleted.push({ id: instance });
    } catch (error) {
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      const { code, message } = asCloudflareError(error);
      errors.push({ id: instance, code, message });
    }
  }
  return { deleted, errors };
}

/** Returns an instance in Cloudflare's format. Only a step's last attempt is listed, because Cellar stores no others. */
function described({
  id,
  status,
  steps,
  created_at,
  changed_at,
  ...instance
}: Result<'workflows.instances.get'>) {
  const hasEnded = ['complete', 'errored', 'terminated'].includes(status);
  return {
    id,
    status,
    success: hasEnded ? status === 'complete' : null,
    params: instance.params,
    output: instance.output,
    error: instance.error,
    trigger: { source: 'unknown' },
    queued: created_at,
    start: created_at,
    end: hasEnded ? changed_at : null,
    step_count: steps.length + instance.steps_left_out,
    steps: steps.map(describedStep),
  };
}

function describedStep({ type, status, error, output, attempts, ...step }: WorkflowStep) {
  const times = { name: `${step.name}-${step.count}`, start: step.started_at, end: step.ended_at };
  const success = status === 'complete' ? true : status === 'errored' ? false : null;
  if (type === 'sleep') return { ...times, type: 'sleep', finished: success === true, error };
  if (type === 'waitForEvent') return { ...times, type, finished: success !== null, output, error };
  const last = { start: step.started_at, end: step.ended_at, success, error };
  return {
    ...times,
    type: 'step',
    success,
    output,
    config: { retries: { limit: attempts ?? 1, delay: '[dynamic]' }, timeout: null },
    attempts: attempts === null || attempts === 0 ? [] : [last],
  };
}
