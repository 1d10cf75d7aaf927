// The shape of one operation of the contract.
import type * as z from 'zod';
import type { ErrorCode } from './errors.ts';
import { nothing } from './fields.ts';

/**
 * Who may run an operation. `view`, `push`, `admin`: an account with at least this role on the app that `id` or `slug`
 * names. `account`: any account, for its own records. `runner`: only the runner token and signed-in admins, who may also run
 * all others.
 */
export type Needs = 'view' | 'push' | 'admin' | 'runner' | 'account';

/** One operation. REST, RPC, OpenAPI and the typed client are generated from it. */
export interface Operation {
  /** The name of the operation, which is also its RPC method. */
  name: string;
  /** One line for the OpenAPI document. */
  summary: string;
  /** The HTTP method. For an operation without a path, `GET` only means that it changes nothing. */
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** The REST path. `:name` matches one segment, `:name+` all further segments. `null`: RPC only. */
  path: string | null;
  needs: Needs;
  /** Set for operations other than DELETE that may destroy stored data. */
  destroys?: true;
  /** The whole input, with the path's parameters. Strict: unknown fields are refused. */
  input: z.ZodObject;
  /** Schema of the output. For a stream, the schema of the data of one event. */
  output: z.ZodType;
  status: 200 | 201 | 202 | 204;
  /** Answers 200 instead of `status` when the record existed before. */
  replaces?: true;
  /** Error codes of this operation, besides the codes that every operation has. */
  errors: readonly ErrorCode[];
  /** `stream`: `text/event-stream`. `bytes`: raw in REST, `content_base64` in RPC. Default `json`. */
  kind?: 'json' | 'stream' | 'bytes';
  /** Output fields that are shown once: an idempotent repeat leaves them out. */
  secrets?: readonly string[];
  /** Input fields by their names in the REST query, where the names differ because the path has a parameter of that name. */
  queryNames?: Readonly<Record<string, string>>;
  /** Largest body in bytes. Default 1 MiB. */
  bodyLimit?: number;
  /**
   * False for calls that the audit log leaves out: reports of an app, files before their deploy, and a POST that only reads.
   */
  audited?: false;
  /**
   * The scope that an API key needs for the operation. Left out: `scopeOf` derives it from `needs` and `method`.
   */
  scope?: KeyScope;
  /** Whether an API key for one app may run an operation that needs only an account. */
  oneApp?: true;
}

/** The fields that decide who may run an operation. */
export type OperationRights = Pick<Operation, 'name' | 'needs' | 'method' | 'scope' | 'oneApp'>;

/** What an API key may do at most, besides the roles of its account. */
export type KeyScope = 'read' | 'deploy' | 'admin';

const SCOPES = { view: 'read', push: 'deploy', admin: 'admin', runner: 'admin' } as const;

/** Returns the scope that an API key needs for an operation. */
export function scopeOf({ needs, method, scope }: Pick<Operation, 'needs' | 'method' | 'scope'>): KeyScope {
  if (scope !== undefined) return scope;
  if (needs === 'account') return method === 'GET' ? 'read' : 'admin';
  return SCOPES[needs];
}

type Defaults = 'path' | 'status' | 'errors';

/**
 * Declares an operation, and keeps its literal types. Defaults: RPC only, with status 200, or 204 for the output `nothing`.
 * An operation on an app has the error `app_not_found` besides those given.
 */
export function operation<const O extends Omit<Operation, Defaults> & Partial<Operation>>(
  declared: O,
): O & Pick<Operation, Defaults> {
  const ofApp = isOfApp(declared) ? (['app_not_found'] as const) : [];
  const status = declared.output === nothing ? 204 : 200;
  return { path: null, status, ...declared, errors: [...ofApp, ...(declared.errors ?? [])] };
}

/** Whether an operation needs a role on an app. */
export function isOfApp({ needs }: Pick<Operation, 'needs'>): boolean {
  return needs !== 'runner' && needs !== 'account';
}

/** Whether an operation may destroy stored data. */
export function isDestructive({ method, destroys }: Operation): boolean {
  return method === 'DELETE' || destroys === true;
}

/** Returns the parameter names of an operation's path, in order. */
export function pathNames(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!);
}
