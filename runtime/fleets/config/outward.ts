// Bindings to what lies outside of the app and of its storage, in a cell. Those who use none have none of it.
import { readFileSync } from 'node:fs';
import type { Outward, Release } from '../../../bundler/release.ts';
import { errorBody, notSet } from '../../ai/errors.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { fromSecret } from './secret-bindings.ts';

const AI_SERVICE = 'ai-service';
/** Answers in place of an AI server, where there is none. */
const NO_AI = `export default { fetch: () => new Response(${JSON.stringify(errorBody(notSet()))}, { status: 503 }) };`;
const SERVICE_DATE = '2026-01-01';
const AI_MODULE = 'cloudflare-internal:ai-api';

/** Modules of Cellar's own, by the type of the bindings that they make. */
const MODULES: Partial<Record<Outward['type'], { name: string; text: string }>> = {
  hyperdrive: own('hyperdrive'),
  analytics_engine: own('analytics-engine'),
};
/** All that a config may have of them. */
export const OUTWARD_TEXTS = Object.values(MODULES).map(({ text }) => text);

/** The services that the bindings need. @param aiSocket as `ConfigOptions` has it */
export function outwardServices({ outward = [] }: Release, aiSocket: string | null): CapnpValue[] {
  return outward.some(({ type }) => type === 'ai') ? [aiService(aiSocket)] : [];
}

/** The modules that the bindings need. */
export function outwardModules({ outward = [] }: Release): Fields[] {
  const types = new Set(outward.map(({ type }) => type));
  return [...types].flatMap((type) => {
    const { name, text } = MODULES[type] ?? {};
    return name === undefined ? [] : [{ name, internal: true, esModule: text! }];
  });
}

/** The bindings of the app's Worker. @param secrets names of all secrets of the app */
export function outwardBindings({ outward = [] }: Release, secrets: string[]): CapnpValue[] {
  return outward.map((bound) => ({
    name: bound.binding,
    wrapped: { moduleName: MODULES[bound.type]?.name ?? AI_MODULE, innerBindings: inner(bound, secrets) },
  }));
}

function inner(bound: Outward, secrets: string[]): CapnpValue[] {
  const { binding } = bound;
  // workerd's own asks a service by HTTP what `run()` is to do.
  if (bound.type === 'ai') return [{ name: 'fetcher', service: AI_SERVICE }];
  if (bound.type === 'analytics_engine') return [{ name: 'dataset', text: bound.dataset }];
  const isSet = secrets.includes(binding);
  const connectionString = isSet ? [{ name: 'connectionString', ...fromSecret(binding, secrets) }] : [];
  return [{ name: 'binding', text: binding }, ...connectionString];
}

function aiService(socket: string | null): Fields {
  if (socket !== null) return { name: AI_SERVICE, external: { address: `unix:${socket}`, http: {} } };
  const modules = [{ name: 'no-ai.js', esModule: NO_AI }];
  return { name: AI_SERVICE, worker: { modules, compatibilityDate: SERVICE_DATE } };
}

function own(name: string): { name: string; text: string } {
  const text = readFileSync(new URL(`${name}-module.js`, import.meta.url), 'utf8');
  return { name: `cellar-internal:${name}`, text };
}
