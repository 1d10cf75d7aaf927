// Bindings to services outside the app and its storage. An app without such bindings gets no such service.

import type { Outward, Release } from '../../../bundler/release.ts';
import { errorBody, notSet } from '../../ai/errors.ts';
import { notSet as browserNotSet } from '../../browser/errors.ts';
import { errorAnswer, notRunning } from '../../images/errors.ts';
import { notSet as mailNotSet, refusalBody } from '../../mail/errors.ts';
import { BINDING_HEADER, bindingHeader } from '../../mail/headers.ts';
import { SERVICE_DATE } from './bundled-services.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { FETCHED_IMAGES_BINDING } from './fetched-images/fetched-images.ts';
import { fromSecret } from './secret-bindings.ts';
import { type CellModule, textOf } from './texts.ts';

/** Types of bindings with a service of the host behind them. */
const SERVICES = ['ai', 'images', 'browser', 'send_email'] as const;
export type OutwardService = (typeof SERVICES)[number];
/**
 * Services of the host that a cell (an app's workerd process) reaches at a socket. The last two have no binding in this
 * file: `vectors` belongs to the storage, and `containers` to classes of Durable Objects.
 */
export type HostService = OutwardService | 'vectors' | 'containers';
/**
 * The sockets of the host's services. A service without a socket is not running: its bindings fail with a message that names
 * the missing setting.
 */
export type HostServiceSockets = Partial<Record<HostService, string | undefined>>;

const AI_SERVICE = 'ai-service';
const IMAGES_SERVICE = 'images-service';
const BROWSER_SERVICE = 'browser-service';
/** The Worker that answers in place of the AI service when no AI server is configured. */
const NO_AI = `export default { fetch: () => new Response(${JSON.stringify(errorBody(notSet()))}, { status: 503 }) };`;
/** The Worker that answers in place of the images service where none runs. */
const NO_IMAGES = missingImages();
const NO_BROWSER = `export default { fetch: () => new Response(${JSON.stringify(browserNotSet().message)}, { status: 503 }) };`;
const NO_MAIL = `export default { fetch: () => new Response(${JSON.stringify(refusalBody(mailNotSet()))}, { status: 503 }) };`;
/** workerd's own modules, by type of binding. They send calls as HTTP requests to a service. */
const WORKERD_MODULES: Partial<Record<Outward['type'], string>> = {
  ai: 'cloudflare-internal:ai-api',
  images: 'cloudflare-internal:images-api',
};

/** Cellar's own modules, by type of binding. */
const MODULES: Partial<Record<Outward['type'], CellModule>> = {
  hyperdrive: own('hyperdrive'),
  analytics_engine: own('analytics-engine'),
  send_email: own('send-email'),
  missing: own('missing'),
};
/** The internal module that workerd's `cloudflare:email` imports. workerd does not have it. */
const EMAIL = { name: 'cloudflare-internal:email', text: textOf('./modules/email-module.js') };

/** Whether a module may import `cloudflare:email`: its text has this name. */
export function mayImportEmail(text: string): boolean {
  return text.includes('cloudflare:email');
}

/** Returns the running services of the host that a release uses. @param fetchesImages whether `fetch()` transforms images */
export function hostServicesOf(
  { outward = [], vectorIndexes = [], containers = [] }: Release,
  sockets: HostServiceSockets,
  fetchesImages: boolean,
): HostService[] {
  const used = SERVICES.filter(
    (service) => outward.some(({ type }) => type === service) || (service === 'images' && fetchesImages),
  );
  const all = [
    ...used,
    ...(vectorIndexes.length > 0 ? (['vectors'] as const) : []),
    ...(containers.length > 0 ? (['containers'] as const) : []),
  ];
  return all.filter((service) => sockets[service] !== undefined);
}

/** Returns the services that the bindings need. @param fetchesImages whether `fetch()` transforms images */
export function outwardServices(
  { outward = [] }: Release,
  sockets: HostServiceSockets,
  fetchesImages: boolean,
): CapnpValue[] {
  const has = (type: Outward['type']) => outward.some((bound) => bound.type === type);
  return [
    ...(has('ai') ? [service(AI_SERVICE, sockets.ai, NO_AI)] : []),
    ...(has('images') || fetchesImages ? [service(IMAGES_SERVICE, sockets.images, NO_IMAGES)] : []),
    ...(has('browser') ? [service(BROWSER_SERVICE, sockets.browser, NO_BROWSER)] : []),
    // Each binding has a service, so that workerd, not the Worker, writes the header that states what the binding may send.
    ...outward.flatMap((bound) => {
      if (bound.type !== 'send_email') return [];
      const { type: _, binding, ...restrictions } = bound;
      const header = { name: BINDING_HEADER, value: bindingHeader(restrictions) };
      return [service(mailService(binding), sockets.send_email, NO_MAIL, [header])];
    }),
  ];
}

/**
 * Returns the modules that the bindings need.
 * @param importsEmail whether a module of the app may import `cloudflare:email`
 */
export function outwardModules({ outward = [] }: Release, importsEmail: boolean): Fields[] {
  const types = new Set(outward.map(({ type }) => type));
  const modules = [...types].flatMap((type) => MODULES[type] ?? []);
  if (importsEmail || types.has('send_email')) modules.unshift(EMAIL);
  return modules.map(({ name, text }) => ({ name, internal: true, esModule: text }));
}

/**
 * Returns the app's bindings to services outside it.
 * @param secrets names of all secrets of the app
 * @param fetchesImages whether `fetch()` transforms images
 */
export function outwardBindings(
  { outward = [] }: Release,
  secrets: string[],
  fetchesImages: boolean,
): CapnpValue[] {
  const wrapped = outward.filter((bound) => bound.type !== 'pipelines');
  const bindings = wrapped.map((bound) => ({
    name: bound.binding,
    // Not wrapped, because Puppeteer and Playwright call `fetch()` of the binding.
    ...(bound.type === 'browser'
      ? { service: BROWSER_SERVICE }
      : {
          wrapped: {
            moduleName: MODULES[bound.type]?.name ?? WORKERD_MODULES[bound.type]!,
            innerBindings: inner(bound, secrets),
          },
        }),
  }));
  return fetchesImages ? [...bindings, { name: FETCHED_IMAGES_BINDING, service: IMAGES_SERVICE }] : bindings;
}

function inner(bound: Exclude<Outward, { type: 'browser' | 'pipelines' }>, secrets: string[]): CapnpValue[] {
  const { binding } = bound;
  if (bound.type === 'ai') return [{ name: 'fetcher', service: AI_SERVICE }];
  if (bound.type === 'images') return [{ name: 'fetcher', service: IMAGES_SERVICE }];
  if (bound.type === 'send_email') return [{ name: 'fetcher', service: mailService(binding) }];
  if (bound.type === 'missing') return [{ name: 'message', text: bound.message }];
  if (bound.type === 'analytics_engine') return [{ name: 'dataset', text: bound.dataset }];
  const isSet = secrets.includes(binding);
  const connectionString = isSet ? [{ name: 'connectionString', ...fromSecret(binding, secrets) }] : [];
  return [{ name: 'binding', text: binding }, ...connectionString];
}

function mailService(binding: string): string {
  return `mail-${binding}`;
}

/** Returns a service of the host at its socket; without a socket, the Worker `missing`, which answers in its place. */
function service(
  name: string,
  socket: string | undefined,
  missing: string,
  injectRequestHeaders: Fields[] = [],
): Fields {
  const http = injectRequestHeaders.length === 0 ? {} : { injectRequestHeaders };
  if (socket !== undefined) return { name, external: { address: `unix:${socket}`, http } };
  const modules = [{ name: 'missing.js', esModule: missing }];
  return { name, worker: { modules, compatibilityDate: SERVICE_DATE } };
}

function missingImages(): string {
  const { headers, body } = errorAnswer(notRunning());
  return `export default { fetch: () => new Response(${JSON.stringify(body)}, { status: 503, headers: ${JSON.stringify(headers)} }) };`;
}

function own(name: string): CellModule {
  return { name: `cellar-internal:${name}`, text: textOf(`./modules/${name}-module.js`) };
}
