// Accepts each time-based code (TOTP) of a second factor once, so that a thief who saw a code cannot use it while it is
// valid. Reports refused sign-ins to the audit log.
import { APIError, createAuthMiddleware, isAPIError } from 'better-auth/api';
import { hashOf } from '../secrets.ts';
import type { Env } from './env.ts';
import { reportRefusal } from './refused-sign-ins.ts';

const PATH = '/two-factor/verify-totp';
/** Routes that check a second factor, which completes a sign-in. */
const SECOND_FACTORS = [PATH, '/two-factor/verify-backup-code'];
/** Routes that complete a sign-in without a second factor, or ask for the second factor. */
const FIRST_FACTORS = ['/sign-in/email', '/passkey/verify-authentication'];
/** better-auth's cookie between the password step and the code step. */
const COOKIE = 'two_factor';
/** Maximum validity of a code, in ms: its period of 30 seconds, and the periods before and after it. */
const VALID_MS = 90_000;
const UNAUTHORIZED = 401;

/**
 * Returns hooks for better-auth that refuse a used code, even when two requests send it at the same time. Used codes are in
 * the database, because several hosts share it.
 */
export function oneTimeCodes(env: Env) {
  /** Identifier of the row for the code that a request uses. */
  const takenBy = new WeakMap<Request, string>();
  /** The account that a request with a second factor signs in to. */
  const accounts = new WeakMap<Request, string>();
  const before = createAuthMiddleware(async (call) => {
    if (!SECOND_FACTORS.includes(call.path) || call.request === undefined) return;
    const { name } = call.context.createAuthCookie(COOKIE);
    const cookie = await call.getSignedCookie(name, call.context.secret);
    if (!cookie) return;
    const account = (await call.context.internalAdapter.findVerificationValue(cookie))?.value;
    if (account === undefined) return;
    accounts.set(call.request, account);
    if (call.path !== PATH) return;
    const identifier = `used-code ${await hashOf(`${account} ${call.body?.code}`)}`;
    const expiresAt = new Date(Date.now() + VALID_MS);
    const { internalAdapter } = call.context;
    if (!(await internalAdapter.reserveVerificationValue({ identifier, value: '', expiresAt }))) {
      await reportRefusal(env, call.path, call.request.headers, { account }, 'unauthorized');
      throw new APIError('UNAUTHORIZED', { message: 'This code was used before. Wait for the next code.' });
    }
    takenBy.set(call.request, identifier);
  });
  const after = createAuthMiddleware(async ({ path, request, body, context }) => {
    const { returned, internalAdapter } = context;
    if (request === undefined || !isAPIError(returned)) return;
    const code = takenBy.get(request);
    if (code !== undefined) await internalAdapter.deleteVerificationByIdentifier(code);
    const account = accounts.get(request);
    if (returned.statusCode !== UNAUTHORIZED || (account === undefined && !FIRST_FACTORS.includes(path)))
      return;
    const email = path === '/sign-in/email' ? String(body?.email ?? '') : undefined;
    await reportRefusal(env, path, request.headers, { account, email }, 'unauthorized');
  });
  return { before, after };
}
