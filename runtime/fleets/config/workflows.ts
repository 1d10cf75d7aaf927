// Workflows in a cell (an app's workerd process): workerd's own engine, which runs and retries the steps, and the app's
// bindings to it. An instance is an object that stores its steps' results and has an alarm for its next wait.
import type { Release, Workflow } from '../../../bundler/release.ts';
import { SERVICE_DATE } from './bundled-services.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { textOf } from './texts.ts';

/**
 * Returns the unique key of the namespace with a Workflow's instances. An instance's alarm is the end of its wait or
 * retention. While the instance runs steps, its alarm is a check half a minute ahead.
 */
export function workflowKey(name: string): string {
  return `miniflare-workflows-${name}`;
}

const WORKFLOWS = 'workflow-service';
/** Cellar's changes of the engine. */
const ENGINE_MODULE = textOf('./workers/workflow-engine.js');
/**
 * Compatibility flag: an instance's error has the message of the NonRetryableError. The engine gets the flag if the app has
 * it.
 */
const KEEPS_WORDS = 'workflows_preserve_non_retryable_error_message';
/** Compatibility flag: turns `KEEPS_WORDS` off. */
const REPLACES_WORDS = 'workflows_replace_non_retryable_error_message';
/** From this compatibility date `KEEPS_WORDS` is the default. */
const KEEPS_WORDS_FROM = '2026-05-14';

/**
 * Returns the engine of an app's Workflows. Instances are objects of namespaces that workerd creates for the app's Worker.
 * @param target the service that exports the classes
 */
export function workflowEngine(
  workflows: Workflow[],
  target: string,
  { compatibilityDate, compatibilityFlags }: NonNullable<Release['worker']>,
): Fields {
  const keepsWords =
    compatibilityFlags.includes(KEEPS_WORDS) ||
    (compatibilityDate >= KEEPS_WORDS_FROM && !compatibilityFlags.includes(REPLACES_WORDS));
  return {
    name: WORKFLOWS,
    worker: {
      modules: [
        { name: 'engine.js', esModule: ENGINE_MODULE },
        { name: 'workflows.js', bundled: '/workerd/workflows.js' },
      ],
      compatibilityDate: SERVICE_DATE,
      compatibilityFlags: keepsWords ? [KEEPS_WORDS] : [],
      bindings: [
        ...workflows.map(({ name }) => ({
          name: `workflow:${name}`,
          durableObjectNamespace: { className: workflowKey(name), serviceName: target },
        })),
        {
          name: 'WORKFLOWS',
          json: JSON.stringify(
            Object.fromEntries(workflows.map(({ name, steps, retention }) => [name, { steps, retention }])),
          ),
        },
      ],
      durableObjectStorage: { localDisk: 'do' },
    },
  };
}

/** Returns the fields of the app's Worker that declare its Workflows. */
export function workflowsOf(workflows: Workflow[]): Fields {
  if (workflows.length === 0) return {};
  return {
    workflowsEngine: {
      actorClass: { name: WORKFLOWS, entrypoint: 'Engine' },
      workflows: workflows.map(({ className, name }) => ({
        className,
        name,
        bindingService: workflowService(name),
      })),
    },
  };
}

export function workflowBindings(workflows: Workflow[]): CapnpValue[] {
  return workflows.map(({ binding, name }) => ({
    name: binding,
    wrapped: {
      moduleName: 'cloudflare-internal:workflows-api',
      innerBindings: [{ name: 'fetcher', service: workflowService(name) }],
    },
  }));
}

function workflowService(workflow: string): Fields {
  return {
    name: WORKFLOWS,
    entrypoint: 'WorkflowBinding',
    props: { json: JSON.stringify({ workflow }) },
  };
}
