// The shape of one operation of the contract.
import type * as z from 'zod';
import type { ErrorCode } from './errors.ts';

/**
 * Who may carry an operation out: an account with at least this role on the app that `id` or `slug` names; the runner token
 * alone; or any account, for its own things.
 */
export type Needs = 'view' | 'push' | 'admin' | 'runner' | 'account';

/** One operation. REST, RPC, OpenAPI and the typed client are all made from it. */
export interface Operation {
  /** Its RPC method. */
  name: string;
  /** One line for the reader of the OpenAPI document. */
  summary: string;
  /** For an operation without a path it only says whether something is changed. */
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `:name` catches one segment, `:name+` the rest. `null`: RPC only. */
  path: string | null;
  needs: Needs;
  /** Set where it may destroy what was kept, and its method is not DELETE, which says so already. */
  destroys?: true;
  /** All of the input, the path's names too. Strict: an unknown field is refused. */
  input: z.ZodObject;
  /** Of a stream, the data of one event. */
  output: z.ZodType;
  status: 200 | 201 | 202 | 204;
  /** Answers 200 in place of `status` when the record was there before. */
  replaces?: true;
  /** Codes it may answer with, besides those of every operation. */
  errors: readonly ErrorCode[];
  /** `stream`: answered as `text/event-stream`. `bytes`: raw in REST, `content_base64` in RPC. Default `json`. */
  kind?: 'json' | 'stream' | 'bytes';
  /** Fields of the answer that are shown once: left out when the answer is repeated for an idempotency key. */
  secrets?: readonly string[];
  /** REST names of query fields that the path has a use for already, by the input's name. */
  queryNames?: Readonly<Record<string, string>>;
  /** Largest body in bytes. Default 1 MiB. */
  bodyLimit?: number;
}

/** Declares an operation, with its types kept. */
export function operation<const O extends Operation>(declared: O): O {
  return declared;
}

/** Whether an operation may destroy what was kept. */
export function isDestructive({ method, destroys }: Operation): boolean {
  return method === 'DELETE' || destroys === true;
}

/** The names that an operation's path catches, in order. */
export function pathNames(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!);
}
