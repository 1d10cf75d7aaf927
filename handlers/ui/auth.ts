// Sign-in: better-auth, with what it may do here.
import { passkey } from '@better-auth/passkey';
import { betterAuth } from 'better-auth';
import { twoFactor } from 'better-auth/plugins/two-factor';
import { PASSWORD_MAX, PASSWORD_MIN } from '../contract/people/sign-in.ts';
import type { Env } from './env.ts';
import { Limiter } from './limits.ts';
import { oneTimeCodes } from './one-time-codes.ts';

const DAY_S = 24 * 3600;
/** How long an account is locked after too many wrong codes. */
export const LOCK_S = 15 * 60;
const BASE_PATH = '/api/auth';

/** The library's routes that are there. Accounts are made, named and deleted by the API. */
const ROUTES = new Set([
  'POST /sign-in/email',
  'POST /sign-out',
  'GET /list-sessions',
  'POST /revoke-session',
  'POST /revoke-sessions',
  'POST /revoke-other-sessions',
  'POST /change-password',
  'POST /two-factor/enable',
  'POST /two-factor/disable',
  'POST /two-factor/get-totp-uri',
  'POST /two-factor/verify-totp',
  'POST /two-factor/generate-backup-codes',
  'POST /two-factor/verify-backup-code',
  'GET /passkey/generate-register-options',
  'POST /passkey/verify-registration',
  'GET /passkey/generate-authenticate-options',
  'POST /passkey/verify-authentication',
  'GET /passkey/list-user-passkeys',
  'POST /passkey/update-passkey',
  'POST /passkey/delete-passkey',
]);

/** Whether a request is for the library. */
export function isAuthRoute(method: string, path: string): boolean {
  return path.startsWith(`${BASE_PATH}/`) && ROUTES.has(`${method} ${path.slice(BASE_PATH.length)}`);
}

/**
 * What the names of our cookies begin with. Over HTTPS browsers let nobody but this very origin set them; without it they
 * would not take such a name.
 */
export function cookiePrefix({ PUBLIC_UI_URL }: Env): string {
  return PUBLIC_UI_URL.startsWith('https:') ? '__Host-cellar' : 'cellar';
}

/** The library, set up. All that it keeps is in the database, but for counts of attempts. */
export function createAuth(env: Env) {
  const secure = env.PUBLIC_UI_URL.startsWith('https:');
  const prefix = cookiePrefix(env);
  const budget = new Limiter(Number(env.SERVICE_AUTH_RATE_LIMIT));
  return betterAuth({
    appName: 'Cellar',
    baseURL: env.PUBLIC_UI_URL,
    basePath: BASE_PATH,
    secret: env.SIGN_IN_KEY,
    database: env.DB,
    trustedOrigins: [env.PUBLIC_UI_URL],
    telemetry: { enabled: false },
    logger: { level: 'error' },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: PASSWORD_MIN,
      maxPasswordLength: PASSWORD_MAX,
    },
    session: { expiresIn: 30 * DAY_S, updateAge: DAY_S, freshAge: DAY_S },
    rateLimit: {
      enabled: true,
      customStorage: {
        // One budget for all of it, in place of the library's own for single routes.
        consume: async (key: string) => {
          const wait = budget.admit(key.split('|', 1)[0]!, Date.now());
          return { allowed: wait === 0, retryAfter: wait === 0 ? null : wait };
        },
      },
    },
    advanced: {
      cookiePrefix: prefix,
      // It would put another prefix before ours.
      useSecureCookies: false,
      defaultCookieAttributes: { secure, sameSite: 'strict', httpOnly: true, path: '/' },
      ipAddress: { ipAddressHeaders: ['x-real-ip'] },
    },
    hooks: oneTimeCodes(),
    plugins: [
      twoFactor({ issuer: 'Cellar', accountLockout: { durationSeconds: LOCK_S } }),
      passkey({
        rpID: new URL(env.PUBLIC_UI_URL).hostname,
        rpName: 'Cellar',
        origin: env.PUBLIC_UI_URL,
        advanced: { webAuthnChallengeCookie: 'passkey' },
      }),
    ],
  });
}
export type Auth = ReturnType<typeof createAuth>;
