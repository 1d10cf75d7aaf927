// Each code of a second factor signs in once: a thief who saw it cannot use it again while it is valid.
import { APIError, createAuthMiddleware, isAPIError } from 'better-auth/api';

const PATH = '/two-factor/verify-totp';
/** The library's cookie between the password and the code. */
const COOKIE = 'two_factor';
/** How long a code may be valid, in ms: 30 seconds, and those before and after it. */
const VALID_MS = 90_000;

/** Hooks of the library that refuse a code which has signed in, also one that is sent twice at once. */
export function oneTimeCodes() {
  /** When each code was taken, by its account and itself. */
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
