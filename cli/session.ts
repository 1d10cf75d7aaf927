// The context of a command. Everything outside the process is injected, so that tests can replace it.
import type { CellarClient } from '../client/index.ts';
import { clientTimeoutMs } from '../handlers/contract/host/deadlines.ts';
import type { OperationName, Params, Result } from '../handlers/contract/index.ts';
import { Stopped } from './exit.ts';
import { linkedSlug, namedByProject } from './git/folder.ts';
import type { Login } from './login-file.ts';

/** The part of the typed client that commands use. */
export type Client = Pick<CellarClient, 'call' | 'stream'>;

/** The environment of a command. */
export interface Place {
  /** The folder that the command was started in. */
  folder: string;
  /** The folder of this clone of Cellar. */
  root: string;
  env: Readonly<Record<string, string | undefined>>;
  /** Whether standard input and output are a terminal, so that a person can be asked. */
  isTerminal: boolean;
  /** Writes data to standard output. */
  out: (text: string) => void;
  /** Writes to standard error: progress, questions, errors. */
  say: (text: string) => void;
  /** Reads standard input to its end. */
  input: () => Promise<string>;
  /** Aborted by SIGINT (Ctrl-C), SIGTERM and SIGHUP. */
  signal: AbortSignal;
}

export class Session {
  readonly place: Place;
  readonly json: boolean;
  readonly #given: string | undefined;
  readonly #login: () => Login;
  readonly #connect: (login: Login) => Client;
  #client: Client | null = null;

  constructor(options: {
    place: Place;
    /** Whether data is printed as JSON. */
    json: boolean;
    /** The value of `--app`. */
    app: string | undefined;
    login: () => Login;
    connect: (login: Login) => Client;
  }) {
    this.place = options.place;
    this.json = options.json;
    this.#given = options.app;
    this.#login = options.login;
    this.#connect = options.connect;
  }

  /** @throws {Stopped} as `findLogin` does */
  get login(): Login {
    return this.#login();
  }

  get client(): Client {
    this.#client ??= this.#connect(this.login);
    return this.#client;
  }

  /** Returns a client for another login. */
  connect(login: Login): Client {
    return this.#connect(login);
  }

  /** Runs an operation until `Place.signal` aborts, or until it times out. @param client by default that of the login */
  call<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    client: Client = this.client,
  ): Promise<Result<Name>> {
    const signal = AbortSignal.any([this.place.signal, AbortSignal.timeout(clientTimeoutMs(name))]);
    return client.call(name, params, { signal });
  }

  /**
   * Finds the app: `--app`, else that of the folder's git remote `cellar`, else the name in its Wrangler configuration.
   * @returns its id or slug
   * @throws {Stopped} when none of these names an app
   */
  app(): string {
    const { folder } = this.place;
    const app = this.#given ?? linkedSlug(folder) ?? namedByProject(folder);
    if (app !== null) return app;
    throw new Stopped(
      'usage',
      'Which app? This folder has no git remote `cellar` and no Wrangler configuration with a name: link it to an app, or give --app.',
      'cellar init',
    );
  }
}

/** Reads a whole list, page by page. */
export async function whole<Item>(
  read: (page: { limit: number; cursor?: string }) => Promise<{ items: Item[]; next_cursor: string | null }>,
): Promise<{ items: Item[]; next_cursor: null }> {
  const items: Item[] = [];
  let cursor: string | null = null;
  do {
    const page: { items: Item[]; next_cursor: string | null } = await read({
      limit: 200,
      ...(cursor !== null && { cursor }),
    });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return { items, next_cursor: null };
}
