// The bundled control plane in Miniflare, with a host that records its calls, for one test file.
import assert from 'node:assert/strict';
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare';
import { request } from 'undici';
import { bundleHandlers, keptHandlers } from '../../../bundler/modules/handlers.ts';
import { TestHost } from './host.ts';

export const TOKEN = 'test-token-0123456789';
export const SECRET = 'test-secret-0123456789';
export const API_KEY = 'cellar_0123456789abcdefghjkmnpqrstvwxyz';
/** The secret of the welcome link. */
export const WELCOME = 'test-welcome-0123456789';

/** Directory where the test files of a run share the bundled handlers. If it is not set, each file bundles them again. */
const shared = process.env.NODE_COMPILE_CACHE;

const variables = {
  RUNNER_TOKEN: TOKEN,
  HOST_SECRET: SECRET,
  PUBLIC_API_URL: 'http://127.0.0.1:8080',
  PUBLIC_GIT_URL: 'http://git.localhost:8787',
  PUBLIC_UI_URL: 'http://localhost:8787',
  PUBLIC_APP_URL: 'http://{slug}.localhost:8787',
  BASE_DOMAIN: 'localhost',
  DOMAIN_PROOF: 'off',
  MACHINE_NAMES: 'box.example.net,box.local',
  RUNNER_MAX_APPS_PER_USER: '10',
  RUNNER_MAX_SCRIPTS_PER_USER: '2',
  SERVICE_EDGE_RPM: '1800',
  SERVICE_EDGE_APP_RPM: '0',
  RUNNER_TELEMETRY_RETENTION_DAYS: '30',
  RUNNER_WAKE_TIMEOUT_S: '120',
  RUNNER_UI_URL: '',
  RUNNER_CORS_ORIGINS: '',
  MAIL: 'off',
  TCP_PORTS: '20000-20100',
  RUNNER_PUSH_TO_CREATE: 'off',
  RUNNER_STORAGE: 'local',
  HAS_BUCKET: 'false',
  HOST_ID: '',
};

// biome-ignore lint/suspicious/noExplicitAny: the tests assert on bodies
type Json = any;

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: Json;
}

export class TestControl {
  readonly host = new TestHost();
  readonly #miniflare: Miniflare;
  readonly url: string;

  private constructor(miniflare: Miniflare, url: string) {
    this.#miniflare = miniflare;
    this.url = url;
  }

  /** Starts a control plane with empty storage. `changed` overrides variables. */
  static async start(changed: Partial<typeof variables> = {}, boot = true): Promise<TestControl> {
    let host: TestHost | undefined;
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        host: '127.0.0.1',
        port: 0,
        cf: false,
        telemetry: { enabled: false },
        log: new Log(LogLevel.NONE),
        handleStructuredLogs: ({ message }) => process.env.SHOW_LOGS && console.log(message),
        modules: [
          {
            type: 'ESModule',
            path: 'index.js',
            contents: await (shared ? keptHandlers(shared) : bundleHandlers()),
          },
        ],
        compatibilityDate: '2026-10-01',
        d1Databases: ['DB'],
        kvNamespaces: ['FILES'],
        durableObjects: {
          APP: { className: 'AppObject', useSQLite: true },
          HOSTS: { className: 'HostsObject', useSQLite: true },
        },
        serviceBindings: { HOST: { node: (request, response) => host!.handle(request, response) } },
        bindings: { ...variables, ...changed },
        unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
      }),
    );
    await miniflare.ready;
    const control = new TestControl(miniflare, (await miniflare.unsafeGetDirectURL()).origin);
    host = control.host;
    if (boot) assert.equal((await control.boot()).status, 200);
    return control;
  }

  /** Sends the host's first call. */
  boot(): Promise<Answer> {
    return this.internal('/internal/boot', { api_key: API_KEY, welcome: WELCOME });
  }

  database(): Promise<Json> {
    return this.#miniflare.getD1Database('DB');
  }

  async stop(): Promise<void> {
    await this.#miniflare.dispose();
  }

  /** Sends a request with only the given headers. */
  async fetch(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
    const signal = AbortSignal.timeout(60_000);
    const response = await fetch(this.url + path, { method, redirect: 'manual', signal, ...init });
    const text = await response.text();
    const json = /json/.test(response.headers.get('content-type') ?? '') && text !== '';
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: json ? JSON.parse(text) : undefined,
    };
  }

  /** Sends a GET, or a POST with a body, with another `Host` header. */
  async at(
    hostname: string,
    path: string,
    headers: Record<string, string> = {},
    body?: string,
  ): Promise<Omit<Answer, 'headers'> & { headers: Record<string, unknown> }> {
    const {
      statusCode,
      headers: sent,
      body: stream,
    } = await request(this.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...headers, host: `${hostname}:8787` },
      body: body ?? null,
    });
    const text = await stream.text();
    const json = /json/.test(String(sent['content-type'])) && text !== '';
    return { status: statusCode, headers: sent, text, body: json ? JSON.parse(text) : undefined };
  }

  /** Calls the API with the runner token. `body` is sent as JSON; a string as it is. */
  api(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.fetch(method, path, {
      headers: {
        authorization: `Bearer ${TOKEN}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  }

  /** Sends a JSON-RPC message unchanged: an object, a batch, or an invalid text. */
  rpc(message: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.api('POST', '/rpc', message, headers);
  }

  /** Calls an RPC method and returns its result. */
  async call(method: string, params: object): Promise<Json> {
    const { body } = await this.rpc({ jsonrpc: '2.0', id: 1, method, params });
    assert.equal(body.error, undefined, JSON.stringify(body.error));
    return body.result;
  }

  /** Calls an RPC method and returns the problem of its error. */
  async refusal(method: string, params: object): Promise<Json> {
    const { body } = await this.rpc({ jsonrpc: '2.0', id: 1, method, params });
    return body.error.data;
  }

  /** Sends a call as the host does. */
  internal(path: string, body: unknown, secret = SECRET): Promise<Answer> {
    return this.fetch('POST', path, {
      headers: { 'content-type': 'application/json', 'x-cellar-secret': secret },
      body: JSON.stringify(body),
    });
  }

  async create(slug: string): Promise<Json> {
    const { status, text, body } = await this.api('POST', '/v1/apps', { slug });
    assert.equal(status, 201, text);
    return body;
  }
}
