// The control UI's server in the test's process, with SQLite in memory. Counts its queries and API requests.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { temporaryDirectory } from '../temporary.ts';
import { MemoryD1 } from './control-in-process.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const ORIGIN = 'http://localhost:8787';
type Handler = { fetch(request: Request, env: object, execution: object): Promise<Response> };

/** The bundle, built once. Each start imports a new copy, as an isolate does. */
let bundled: Promise<Uint8Array> | undefined;

async function bundle(): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [`${ROOT}/handlers/ui/index.ts`],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'es2024',
    loader: { '.sql': 'text' },
    logLevel: 'silent',
  });
  return outputFiles[0]!.contents;
}

export class UiInProcess {
  /** Number of round trips to the database. */
  trips = 0;
  /** Number of requests to the API. */
  asked = 0;
  /** Answers requests to the API. */
  api: (url: URL) => Response = () => Response.json({ code: 'invite_not_found' }, { status: 404 });
  /** Whether every query fails. */
  broken = false;
  /** Whether queries never end. */
  stuck = false;
  readonly database: MemoryD1;
  readonly #handler: Handler;
  readonly #env: object;

  private constructor(handler: Handler, variables: Record<string, string>, database: MemoryD1) {
    this.#handler = handler;
    this.database = database;
    const binding = database.through(async (work) => {
      this.trips++;
      if (this.stuck) await new Promise(() => {});
      if (this.broken) throw new Error('the database is broken');
      return work();
    });
    this.#env = {
      DB: { ...binding, exec: () => {} },
      API: {
        fetch: async (url: string) => {
          this.asked++;
          return this.api(new URL(url));
        },
      },
      FILES: {},
      SIGN_IN_KEY: 'a key for tests with enough characters',
      PUBLIC_UI_URL: ORIGIN,
      MAIL: 'off',
      OIDC_URL: '',
      OIDC_REQUIRED: 'off',
      SERVICE_RATE_LIMIT_RPM: '0',
      SERVICE_AUTH_RATE_LIMIT: '0',
      ...variables,
    };
  }

  /**
   * Starts a server for one test.
   * @param variables settings of the server; default: no rate limits and no identity provider
   * @param database the database, to share that of another server; default: a new, empty database
   */
  static async start(
    t: TestContext,
    variables: Record<string, string> = {},
    database = new MemoryD1(),
  ): Promise<UiInProcess> {
    bundled ??= bundle();
    const path = join(temporaryDirectory(t), 'ui.mjs');
    writeFileSync(path, await bundled);
    return new UiInProcess((await import(pathToFileURL(path).href)).default, variables, database);
  }

  /** Sends a POST as one of our pages does. */
  post(path: string, body: object, address = '192.0.2.1', cookie = ''): Promise<Response> {
    const headers = { 'content-type': 'application/json', origin: ORIGIN, 'x-real-ip': address, cookie };
    return this.#ask(new Request(ORIGIN + path, { method: 'POST', headers, body: JSON.stringify(body) }));
  }

  get(path: string, cookie: string): Promise<Response> {
    return this.#ask(new Request(ORIGIN + path, { headers: { cookie } }));
  }

  #ask(request: Request): Promise<Response> {
    return this.#handler.fetch(request, this.#env, { waitUntil: () => {} });
  }
}
