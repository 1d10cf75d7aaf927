// Cloudflare's error codes that Cellar uses. Wrangler branches on many of them.
import { CodedError } from '../contract/coded-error.ts';
import type { ErrorCode } from '../contract/errors.ts';
import { Problem } from '../problem.ts';
import { QueryFailed } from '../services/storage/sql.ts';
import { whyUnanswered } from './unanswered.ts';

const DOCS = 'docs/wrangler-calls.md lists the calls that it answers';

export const CODES = {
  /** The token is missing or wrong, belongs to another account, or does not allow the call. */
  AUTHENTICATION: 10000,
  BAD_REQUEST: 10001,
  BUCKET_NOT_FOUND: 10006,
  /** No such Worker. Cloudflare uses this code also for a missing object in a bucket. */
  SCRIPT_NOT_FOUND: 10007,
  KEY_NOT_FOUND: 10009,
  NAMESPACE_NOT_FOUND: 10013,
  /** The uploaded script is invalid. */
  SCRIPT_INVALID: 10021,
  VERSION_NOT_FOUND: 10025,
  SECRET_NOT_FOUND: 10056,
  BINDING_NOT_INHERITED: 10057,
  SERVICE_NOT_FOUND: 10090,
  /** The dispatch namespace has no such script. Wrangler then knows that the deploy creates the script. */
  DISPATCHED_NOT_FOUND: 10092,
  DISPATCH_NAMESPACE_NOT_FOUND: 100119,
  QUEUE_NOT_FOUND: 11000,
  WORKFLOW_NOT_FOUND: 10200,
  INSTANCE_NOT_FOUND: 10400,
  INSTANCE_EXISTS: 10405,
  RATE_LIMITED: 971,
  /** Cellar does not answer this call. */
  ROUTE_NOT_FOUND: 7003,
  VECTOR_INDEX_NOT_FOUND: 3000,
  DATABASE_NOT_FOUND: 7404,
  /** SQLite refuses the statement. */
  QUERY_FAILED: 7500,
  INTERNAL: 10002,
} as const;
export type Code = (typeof CODES)[keyof typeof CODES];

/** An error in Cloudflare's format. */
export class CloudflareError extends CodedError<Code> {}

/** Returns the error for a call that is not supported, with the reason. */
export function unsupported(method: string, path: string): CloudflareError {
  const why = whyUnanswered(method, path) ?? DOCS;
  const message = `Cellar does not support the call ${method} ${path}: ${why}.`;
  return new CloudflareError(404, CODES.ROUTE_NOT_FOUND, message);
}

const codeOf: Partial<Record<ErrorCode, Code>> = {
  unauthorized: CODES.AUTHENTICATION,
  forbidden: CODES.AUTHENTICATION,
  account_not_found: CODES.AUTHENTICATION,
  app_not_found: CODES.SCRIPT_NOT_FOUND,
  deploy_not_found: CODES.VERSION_NOT_FOUND,
  release_unavailable: CODES.VERSION_NOT_FOUND,
  deploy_failed: CODES.SCRIPT_INVALID,
  secret_not_found: CODES.SECRET_NOT_FOUND,
  query_failed: CODES.QUERY_FAILED,
  dataset_spread: CODES.QUERY_FAILED,
  workflow_not_found: CODES.WORKFLOW_NOT_FOUND,
  workflow_instance_not_found: CODES.INSTANCE_NOT_FOUND,
  rate_limited: CODES.RATE_LIMITED,
  route_not_found: CODES.ROUTE_NOT_FOUND,
  internal_error: CODES.INTERNAL,
};

/** Converts an error of our services to Cloudflare's format. If several input fields are faulty, the message lists all. */
export function asCloudflareError(problem: Problem): CloudflareError {
  const { code, status, message, errors = [] } = problem;
  const more =
    errors.length > 1 ? ` ${errors.map(({ path, message }) => `${path}: ${message}`).join('; ')}` : '';
  const words = problem instanceof QueryFailed ? problem.words : `${message}${more}`;
  return new CloudflareError(status, codeOf[code] ?? CODES.BAD_REQUEST, words);
}

/**
 * Runs `work`. Its errors with a code in `codes` become errors with Cloudflare's code.
 * @param codes maps Cellar's error codes to Cloudflare's
 */
export async function withCodes<T>(
  codes: Partial<Record<ErrorCode, Code>>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof Problem ? codes[error.code] : undefined;
    if (code === undefined) throw error;
    throw new CloudflareError((error as Problem).status, code, (error as Problem).message);
  }
}
