// Bindings to what lies outside of the app and of its storage, in a cell. Those who use none have none of it.
import type { Release } from '../../../bundler/release.ts';
import { errorBody, notSet } from '../../ai/errors.ts';
import type { CapnpValue, Fields } from './capnp.ts';

const AI_SERVICE = 'ai-service';
/** Answers in place of an AI server, where there is none. */
const NO_AI = `export default { fetch: () => new Response(${JSON.stringify(errorBody(notSet()))}, { status: 503 }) };`;
const SERVICE_DATE = '2026-01-01';

/** The services that the bindings need. @param aiSocket as `ConfigOptions` has it */
export function outwardServices({ outward = [] }: Release, aiSocket: string | null): CapnpValue[] {
  return outward.some(({ type }) => type === 'ai') ? [aiService(aiSocket)] : [];
}

/** The bindings of the app's Worker. */
export function outwardBindings({ outward = [] }: Release): CapnpValue[] {
  return outward.map(({ binding }) => ({
    name: binding,
    // workerd's own, which asks by HTTP what `run()` is to do.
    wrapped: {
      moduleName: 'cloudflare-internal:ai-api',
      innerBindings: [{ name: 'fetcher', service: AI_SERVICE }],
    },
  }));
}

function aiService(socket: string | null): Fields {
  if (socket !== null) return { name: AI_SERVICE, external: { address: `unix:${socket}`, http: {} } };
  const modules = [{ name: 'no-ai.js', esModule: NO_AI }];
  return { name: AI_SERVICE, worker: { modules, compatibilityDate: SERVICE_DATE } };
}
