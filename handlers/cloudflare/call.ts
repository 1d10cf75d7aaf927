// Functions that declare calls of Cloudflare's API: the request, the needed rights, and Cellar's implementation.
import type * as z from 'zod';
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import type { Context } from '../context.ts';
import { type OperationName, operationsByName, type Params, type Result } from '../contract/index.ts';
import type { Needs, Operation } from '../contract/operation.ts';
import { invoke } from '../transports/invoke.ts';

/** The context that the `answer` function of a call gets. */
export interface CallContext extends Context {
  request: Request;
  url: URL;
  /** The id of the account in the path; empty when the path has none. */
  account: string;
  /** Parameters of the path, by name. */
  words: Record<string, string>;
  /** The operation whose rights the caller needs; null when the path has a secret. */
  as: Operation | null;
  /** Sets the app in the audit entry of the call. */
  setApp: (app: { id: string; slug: string }) => void;
  /** Adds details to the audit entry of the call, such as names from the body. */
  note: (details: Record<string, string>) => void;
}

interface Declared<Body extends z.ZodType> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The operation whose rights apply to this call, so Wrangler can do no more than the API allows. */
  as: OperationName;
  /** The path below `/client/v4`. `:name` matches one segment, `:name+` all further segments. */
  path: string;
  /** Schema of the JSON body. Left out for a call without a body, and when `answer` itself reads the body. */
  body?: Body;
  /** Maximum bytes of the body. Default 1 MiB. */
  bodyLimit?: number;
}

export interface Call extends Omit<Declared<z.ZodType>, 'as'> {
  /** The operation whose rights apply; null when the path has a secret. */
  as: Operation | null;
  /** The role that the caller needs on the app, or `account` for a call without an app. `none` requires no token. */
  needs: Needs | 'none';
  /** Whether the call also works when the app does not exist. */
  mayBeNew: boolean;
  answer: (context: CallContext, body: unknown, app: AppRow | null) => Promise<unknown>;
}

type Answer<Body extends z.ZodType, App> = {
  answer: (context: CallContext, body: z.output<Body>, app: App) => Promise<unknown>;
};

/**
 * Declares a call on the account, or on an app that `answer` finds itself. For an app, `answer` must check the caller's
 * role.
 */
export function call<Body extends z.ZodType = z.ZodUndefined>(
  declared: Declared<Body> & Answer<Body, never>,
): Call {
  return declaredCall(declared.as, declared);
}

/**
 * Declares a call on records of the account with the rights of an app's operation. Only a key for all apps may make the
 * call. A read needs the scope deploy. A change needs the scope admin, because it concerns every app of the account.
 */
export function accountCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Declared<Body> & Answer<Body, never>,
): Call {
  const operation = operationsByName.get(declared.as)!;
  const scope = declared.method === 'GET' ? 'deploy' : 'admin';
  const as: Operation = { ...operation, needs: 'account', scope };
  return { ...declaredCall(declared.as, declared), as, needs: 'account' };
}

/** Declares a call without a token: its path contains a secret. */
export function openCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Omit<Declared<Body>, 'as'> & Answer<Body, never>,
): Call {
  return declaredCall(null, declared);
}

/** Declares a call on the app that `:script` names. */
export function appCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Declared<Body> & Answer<Body, AppRow>,
): Call {
  return declaredCall(declared.as, declared);
}

/** Declares a call that deploys to the app that `:script` names, and creates a missing app. */
export function newAppCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Omit<Declared<Body>, 'as'> & Answer<Body, AppRow | null>,
): Call {
  return { ...declaredCall('deploys.create', declared), mayBeNew: true };
}

function declaredCall(name: OperationName | null, declared: object): Call {
  const as = name === null ? null : operationsByName.get(name)!;
  return { mayBeNew: false, ...declared, as, needs: as?.needs ?? 'none' } as Call;
}

/** A page of a list, with Cloudflare's `result_info`. */
export class Page {
  readonly items: unknown[];
  readonly info: Record<string, unknown>;
  constructor(items: unknown[], info: Record<string, unknown>) {
    this.items = items;
    this.info = info;
  }
}

/** A list that is one page. */
export function wholeList(items: unknown[]): Page {
  const count = items.length;
  return new Page(items, {
    page: 1,
    per_page: Math.max(count, 1),
    count,
    total_count: count,
    total_pages: 1,
  });
}

/** Runs an operation of Cellar's API as the caller, with all checks of the operation. */
export async function run<Name extends OperationName>(
  context: Context,
  name: Name,
  input: Params<Name>,
): Promise<Result<Name>> {
  const { output } = await invoke(operationsByName.get(name)!, context, input, {
    transport: 'rpc',
    key: null,
  });
  return output as Result<Name>;
}
