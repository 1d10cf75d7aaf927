// Bindings that Cellar does not support. In place of each, the Worker gets an object that throws when it is used.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { alternativeTo, topLevelKeys } from '../configuration/wrangler-keys.ts';
import type { Outward } from '../release.ts';

type Missing = Extract<Outward, { type: 'missing' }>;

/** Returns the bindings of a configuration that Cellar does not support. */
export function missingBindings(config: WranglerConfig): Missing[] {
  const given = Object.entries(config).filter(([key]) => {
    const treatment = topLevelKeys[key];
    return treatment === false || (typeof treatment === 'object' && 'instead' in treatment);
  });
  return [
    ...given.flatMap(([key, value]) => bindingNames(key, value).map((name) => missing(name, key))),
    ...missingWithinKeys(config),
  ];
}

/** Returns the unsupported bindings under keys that Cellar otherwise supports. */
export function missingWithinKeys(config: WranglerConfig): Missing[] {
  return [...otherWorkflows(config), ...unsafeBindings(config)];
}

/** Describes the object in place of an unsupported binding. @param key the binding's key in Wrangler's configuration */
export function missing(binding: string, key: string, advice = alternativeTo(key)): Missing {
  const message = `${binding} is not available on this Cellar, which does not run "${key}"`;
  return { type: 'missing', binding, message: advice === null ? message : `${message}. Instead, ${advice}` };
}

/**
 * Returns the names of the bindings in a key's value. Most values are an object with `binding`, or a list of such objects.
 */
function bindingNames(key: string, value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (key.endsWith('_blobs') || key === 'wasm_modules') return Object.keys(value);
  const items = Array.isArray(value) ? value : [value, ...('bindings' in value ? list(value.bindings) : [])];
  return items.flatMap((item) => {
    const { binding, name } = (item ?? {}) as Record<string, unknown>;
    const given = binding ?? (key === 'logfwdr' ? name : undefined);
    return typeof given === 'string' && given !== '' ? [given] : [];
  });
}

function otherWorkflows({ name: own, workflows = [] }: WranglerConfig): Missing[] {
  return workflows
    .filter((each) => isOther(each, own))
    .map(({ binding, script_name }) => workflowOfOtherScript(binding, script_name!));
}

/** Describes the object in place of a binding to a Workflow of another Worker. */
export function workflowOfOtherScript(binding: string, script: string): Missing {
  const message = `${binding} is not available on this Cellar: its class belongs to another Worker, ${script}`;
  return { type: 'missing', binding, message: `${message}. Instead, call that app through "services"` };
}

/** Returns whether a class belongs to another Worker. @param own the name of the project's own Worker */
export function isOther({ script_name: script }: { script_name?: string }, own: string | undefined): boolean {
  return script !== undefined && script !== own;
}

function unsafeBindings({ unsafe }: WranglerConfig): Missing[] {
  const others = (unsafe?.bindings ?? []).filter(({ type }) => type !== RATE_LIMIT);
  return others.map(({ name, type }) => missing(name, `unsafe.bindings: ${type}`, null));
}

/** The type of a rate limit in `unsafe.bindings`. */
export const RATE_LIMIT = 'ratelimit';

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
