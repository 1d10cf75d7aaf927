// The Workflows of an app's live release, and their instances. RPC only.
import * as z from 'zod';
import { listOf, moment, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Statuses of an instance, as in the Workflows engine. `waiting`: for the end of a sleep, an event or a retry. */
export const INSTANCE_STATUSES = [
  'queued',
  'running',
  'waiting',
  'paused',
  'waitingForPause',
  'rollingBack',
  'complete',
  'errored',
  'terminated',
] as const;

export const STEP_TYPES = ['do', 'sleep', 'waitForEvent'] as const;

const status = z.enum(INSTANCE_STATUSES);
const workflow = reference;
/** An instance id that the Workflows engine accepts. */
const instance = z.string().regex(/^[a-zA-Z0-9_][a-zA-Z0-9-_]{0,99}$/);
const error = z.strictObject({ name: z.string(), message: z.string() });
const named = { id: reference, workflow, instance };
/**
 * A stored value, in the formats of docs/storage.md. `{"$large": bytes}` stands for a value of more than 16 KiB, and for
 * values beyond the limit of one answer.
 */
const storedValue = z.unknown();

export const WorkflowStep = z.strictObject({
  name: z.string(),
  /** Its number among the steps with this name and type, from 1. */
  count: z.int(),
  type: z.enum(STEP_TYPES),
  status: z.enum(['running', 'waiting', 'complete', 'errored']),
  /** Number of attempts; null for a step that only waits. */
  attempts: z.int().nullable(),
  started_at: time.nullable(),
  ended_at: time.nullable(),
  /** When its wait ends, or its next attempt begins. */
  due_at: time.nullable(),
  output: storedValue,
  error: error.nullable(),
});
export type WorkflowStep = z.output<typeof WorkflowStep>;

const item = z.strictObject({
  id: z.string(),
  status,
  created_at: time,
  /** Time of the last change. */
  changed_at: time,
});

export const WorkflowInstance = z.strictObject({
  ...item.shape,
  params: storedValue,
  output: storedValue,
  error: error.nullable(),
  /** The last 1,000 steps, in the order in which the instance first reached them. */
  steps: z.array(WorkflowStep),
  steps_left_out: z.int(),
});

const changed = z.strictObject({ id: z.string(), status });
const readErrors = [
  'workflow_not_found',
  'query_timeout',
  'answer_too_large',
  'storage_unreadable',
  'host_unavailable',
] as const;
const writeErrors = [
  'workflow_not_found',
  'workflow_instance_not_found',
  'workflow_conflict',
  'app_unavailable',
  'host_unavailable',
] as const;

/** Declares an operation whose only parameter is the instance. */
function change<const Name extends string>(verb: Name, summary: string) {
  return operation({
    name: `workflows.instances.${verb}`,
    summary,
    method: 'POST',
    needs: 'push',
    input: z.strictObject(named),
    output: changed,
    errors: writeErrors,
  });
}

export const workflows = [
  operation({
    name: 'workflows.list',
    summary: 'Lists the Workflows of the live release',
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(
      z.strictObject({
        name: z.string(),
        class_name: z.string(),
        binding: z.string(),
        /** Stored instances of any status. */
        instances: z.int(),
        bytes: z.int(),
      }),
    ),
    errors: readErrors,
  }),
  operation({
    name: 'workflows.instances.list',
    summary: 'Lists the instances of a Workflow, the newest first',
    method: 'GET',
    needs: 'push',
    /** With a `status`, `since` or `until`, a page may have fewer than `limit` instances although more pages follow. */
    input: z.strictObject({
      id: reference,
      workflow,
      status: status.optional(),
      /** Instances that were created at or after this time. */
      since: moment.optional(),
      /** Instances that were created before this time. */
      until: moment.optional(),
      ...page,
    }),
    output: listOf(item),
    errors: readErrors,
  }),
  operation({
    name: 'workflows.instances.get',
    summary: 'Shows an instance: its parameters, its steps and its result',
    method: 'GET',
    needs: 'push',
    input: z.strictObject(named),
    output: WorkflowInstance,
    errors: [...readErrors, 'workflow_instance_not_found'],
  }),
  operation({
    name: 'workflows.instances.create',
    summary: 'Makes an instance, which runs at once',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      workflow,
      /** The instance's id. If it is left out, the Workflows engine generates one. */
      instance: instance.optional(),
      params: z.unknown().optional(),
    }),
    output: changed,
    status: 201,
    errors: writeErrors,
  }),
  change('pause', 'Pauses an instance: lets a running step end first'),
  change('resume', 'Resumes a paused instance'),
  operation({
    name: 'workflows.instances.terminate',
    summary: 'Ends an instance',
    method: 'POST',
    needs: 'push',
    destroys: true,
    /** `rollback`: first runs the rollback of the steps that have one. */
    input: z.strictObject({ ...named, rollback: z.boolean().default(false) }),
    output: changed,
    errors: writeErrors,
  }),
  operation({
    name: 'workflows.instances.restart',
    summary: 'Runs an instance from its beginning, or from one of its steps',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: z.strictObject({
      ...named,
      from: z
        .strictObject({
          name: z.string().min(1).max(256),
          count: z.int().min(1).optional(),
          type: z.enum(STEP_TYPES).optional(),
        })
        .optional(),
    }),
    output: changed,
    errors: writeErrors,
  }),
  operation({
    name: 'workflows.instances.send_event',
    summary: 'Sends an event to an instance, which may wait for it now or later',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({
      ...named,
      type: z.string().regex(/^[a-zA-Z0-9_][a-zA-Z0-9-_.]{0,99}$/),
      payload: z.unknown().optional(),
    }),
    output: changed,
    errors: writeErrors,
  }),
  operation({
    name: 'workflows.instances.delete',
    summary: 'Deletes an instance and its data; a running one is ended first',
    method: 'DELETE',
    needs: 'push',
    input: z.strictObject(named),
    output: nothing,
    errors: writeErrors,
  }),
] as const;
