// Simulates a browser for a server: an origin, cookies, and the headers that browsers send.
import { fetch, type Response, request } from 'undici';
import { ANSWER_DEADLINE_MS, type Cellar, LOCALHOST } from './cellar.ts';

export interface Seen {
  status: number;
  headers: Response['headers'];
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  body: any;
}

export class Visitor {
  readonly origin: string;
  readonly #base: string;
  readonly #always: Record<string, string>;
  readonly cookies = new Map<string, string>();
  /** Names of cookies with `SameSite=Strict`, which browsers do not send with a link from another site. */
  readonly #strict = new Set<string>();

  /**
   * @param origin origin of the page. Default: the edge's own
   * @param always headers that a proxy in between adds
   */
  constructor(
    { edgePort }: Cellar,
    origin = `http://localhost:${edgePort}`,
    always: Record<string, string> = {},
  ) {
    this.#base = `http://${new URL(origin).hostname}:${edgePort}`;
    this.origin = origin;
    this.#always = always;
  }

  /** Sends a request as a script of our pages does. `headers` override the headers of the browser. */
  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Seen> {
    const response = await this.open(method, path, body, headers);
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== '';
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    };
  }

  /** Like `ask`, but returns the response with its body unread. */
  async open(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    signal = AbortSignal.timeout(ANSWER_DEADLINE_MS),
  ): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(this.#base + path, {
      method,
      redirect: 'manual',
      dispatcher: LOCALHOST,
      signal,
      headers: {
        ...this.#always,
        'sec-fetch-site': 'same-origin',
        ...(method !== 'GET' && { origin: this.origin }),
        ...(cookie !== '' && { cookie }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    this.#keep(response.headers.getSetCookie());
    return response;
  }

  /**
   * Follows a link on another site to our page. The browser does not send cookies with `SameSite=Strict` then.
   * @returns the `location` header of the redirect
   */
  async comeFromElsewhere(path: string): Promise<string> {
    const lax = [...this.cookies].filter(([name]) => !this.#strict.has(name));
    const { statusCode, headers, body } = await request(this.#base + path, {
      dispatcher: LOCALHOST,
      headers: {
        'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'navigate',
        'sec-fetch-dest': 'document',
        ...(lax.length > 0 && { cookie: lax.map(([name, value]) => `${name}=${value}`).join('; ') }),
      },
      signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
    });
    const text = await body.text();
    this.#keep([headers['set-cookie'] ?? []].flat());
    if (typeof headers.location === 'string') return headers.location;
    throw new Error(`answered ${statusCode}: ${text}`);
  }

  #keep(lines: string[]): void {
    for (const line of lines) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
      if (/samesite=strict/i.test(line)) this.#strict.add(name!);
      if (/max-age=0/i.test(line)) this.cookies.delete(name!);
      else this.cookies.set(name!, value!);
    }
  }

  /** Navigates to a page, as from the address bar. */
  page(path: string): Promise<Seen> {
    return this.ask('GET', path, undefined, { accept: 'text/html', 'sec-fetch-site': 'none' });
  }

  /** Runs an operation. @returns its result, or its error code */
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  async rpc(method: string, params: object): Promise<any> {
    const { body } = await this.ask('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
    return body.error?.data.code ?? body.result;
  }

  /** Returns the signed-in account, or null. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  async account(headers: Record<string, string> = {}): Promise<any> {
    return (await this.ask('GET', '/session', undefined, headers)).body.account;
  }

  /** Signs in with a password. @returns the status */
  async signIn(email: string, password: string): Promise<number> {
    return (await this.ask('POST', '/api/auth/sign-in/email', { email, password })).status;
  }
}

/** Resolves with the secret of the printed welcome link, searched from output offset `from`. */
export async function welcomeOf(cellar: Cellar, from = 0): Promise<string> {
  return (await cellar.waitFor(/\/welcome\?token=(\S+)\n/, from))[1]!;
}

/** Resolves when the host has printed its last line at its start. Searches from output offset `from`. */
export async function allPrinted(cellar: Cellar, from = 0): Promise<void> {
  await cellar.waitFor(/ {4}git push .*\n/, from);
}
