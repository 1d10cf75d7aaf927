// Each code of a second factor signs in once: a thief who saw it cannot use it again while it is valid.
import { APIError, createAuthMiddleware, isAPIError } from 'better-auth/api';

const PATH = '/two-factor/verify-totp';
/** The library's cookie between the password step and the code step. */
const COOKIE = 'two_factor';
/** Longest validity of a code, in ms: its own 30 seconds, and the periods before and after. */
const VALID_MS = 90_000;

/** Returns hooks of the library that refuse a code that has signed in, even when it is sent twice concurrently. */
export function oneTimeCodes() {
  /** Time of use of each code, by account and code. */
  const taken = new Map<string, number>();
  const takenBy = new WeakMap<Request, string>();
  const before = createAuthMiddleware(async (call) => {
    if (call.path !== PATH || call.request === undefined) return;
    const { name } = call.context.createAuthCookie(COOKIE);
    const cookie = await call.getSignedCookie(name, call.context.secret);
    if (!cookie) return;
    const account = (await call.context.internalAdapter.findVerificationValue(cookie))?.value;
    if (account === undefined) return;
    const now = Date.now();
    for (const [code, at] of taken) if (now - at > VALID_MS) taken.delete(code);
    const code = `${account} ${call.body?.code}`;
    if (taken.has(code))
      throw new APIError('UNAUTHORIZED', { message: 'This code was used. Wait for the next one.' });
    taken.set(code, now);
    takenBy.set(call.request, code);
  });
  const after = createAuthMiddleware(async (call) => {
    const code = call.request && takenBy.get(call.request);
    if (code !== undefined && isAPIError(call.context.returned)) taken.delete(code);
  });
  return { before, after };
}
