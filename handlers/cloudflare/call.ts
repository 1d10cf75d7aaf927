// One of Cloudflare's calls: what it is asked with, what the caller needs, and how it is answered by our services.
import type * as z from 'zod';
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import type { Context } from '../context.ts';
import { type OperationName, operationsByName, type Params, type Result } from '../contract/index.ts';
import type { Needs } from '../contract/operation.ts';
import { invoke } from '../transports/invoke.ts';

/** What answers a call works with. */
export interface CallContext extends Context {
  request: Request;
  url: URL;
  /** The account that the path names; empty where it names none. */
  account: string;
  /** What stands in the path, by name. */
  words: Record<string, string>;
  /** What the caller needs on the app that the call is about. */
  needs: Needs;
}

interface Declared<Body extends z.ZodType> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The operation of ours that says what the caller needs: Wrangler gives nobody more than the API does. */
  as: OperationName;
  /** Below `/client/v4`. `:name` is one word, `:name+` all that follows. */
  path: string;
  /** The body, as JSON. Left out when there is none, or the answer reads it by itself. */
  body?: Body;
  /** Bytes of the body; 1 MiB where it is left out. */
  bodyLimit?: number;
}

export interface Call extends Omit<Declared<z.ZodType>, 'as'> {
  /** The role on the app that the call is about, or `account` for a call on no app. `none` asks for no token. */
  needs: Needs | 'none';
  /** Whether the app may be missing. */
  mayBeNew: boolean;
  answer: (context: CallContext, body: unknown, app: AppRow | null) => Promise<unknown>;
}

/** Declares a call on the account, or on an app that its answer finds: that has to look whether the caller has the role. */
export function call<Body extends z.ZodType = z.ZodUndefined>(
  declared: Declared<Body> & { answer: (context: CallContext, body: z.output<Body>) => Promise<unknown> },
): Call {
  return {
    needs: needsOf(declared.as),
    mayBeNew: false,
    ...declared,
    answer: declared.answer as Call['answer'],
  };
}

/** Declares a call that its path alone lets in: it has a secret word. */
export function openCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Omit<Declared<Body>, 'as'> & {
    answer: (context: CallContext, body: z.output<Body>) => Promise<unknown>;
  },
): Call {
  return { needs: 'none', mayBeNew: false, ...declared, answer: declared.answer as Call['answer'] };
}

/** Declares a call on the app that `:script` names. */
export function appCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Declared<Body> & {
    answer: (context: CallContext, body: z.output<Body>, app: AppRow) => Promise<unknown>;
  },
): Call {
  return {
    needs: needsOf(declared.as),
    mayBeNew: false,
    ...declared,
    answer: declared.answer as Call['answer'],
  };
}

/** Declares a call that deploys to the app that `:script` names, or to one that it is to make. */
export function newAppCall<Body extends z.ZodType = z.ZodUndefined>(
  declared: Omit<Declared<Body>, 'as'> & {
    answer: (context: CallContext, body: z.output<Body>, app: AppRow | null) => Promise<unknown>;
  },
): Call {
  return {
    needs: needsOf('deploys.create'),
    mayBeNew: true,
    ...declared,
    answer: declared.answer as Call['answer'],
  };
}

function needsOf(operation: OperationName): Needs {
  return operationsByName.get(operation)!.needs;
}

/** A page of a list, with what Cloudflare says of it beside. */
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

/** Runs one of our operations as the caller, with all its checks. */
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
