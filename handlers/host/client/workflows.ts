// Calls the host about an app's Workflows and their instances.
import { READ_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import type { InstancesQuestion, Looked, WorkflowAction } from '../../contract/host/host-storage.ts';
import type { Result } from '../../contract/index.ts';
import { type HostConnection, maybeDone } from './connection.ts';

const WORKFLOW_REFUSALS = [
  'workflow_not_found',
  'workflow_instance_not_found',
  'workflow_conflict',
  'invalid_input',
  'app_unavailable',
] as const;

export class Workflows {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Returns the Workflows of an app's live release. */
  async list(appId: string): Promise<Result<'workflows.list'>['items']> {
    return this.#host.look('GET /apps/:id/workflows', appId);
  }

  async instances(
    appId: string,
    body: InstancesQuestion,
  ): Promise<Looked<Result<'workflows.instances.list'>>> {
    return this.#host.look('POST /apps/:id/workflows/instances', appId, body);
  }

  async instance(
    appId: string,
    body: { workflow: string; instance: string },
  ): Promise<Result<'workflows.instances.get'>> {
    return this.#host.look('POST /apps/:id/workflows/instance', appId, body);
  }

  /**
   * Creates or changes an instance through a process of the app.
   * @throws {Problem} without a process, or when its status forbids it
   */
  async act(
    appId: string,
    body: WorkflowAction,
  ): Promise<HostCalls['POST /apps/:id/workflows/act']['answer']> {
    const options = { body, refusals: WORKFLOW_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    const response = await this.#host.call('POST /apps/:id/workflows/act', [appId], options).catch(maybeDone);
    return response.status === 204 ? null : response.json();
  }
}
