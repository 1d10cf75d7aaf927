// Sign-in: configures better-auth.
import { passkey } from '@better-auth/passkey';
import { betterAuth } from 'better-auth';
import { twoFactor } from 'better-auth/plugins/two-factor';
import { PASSWORD_MAX, PASSWORD_MIN } from '../contract/people/sign-in.ts';
import { askAbout } from './api.ts';
import type { Env } from './env.ts';
import { Limiter } from './limits.ts';
import { oneTimeCodes } from './one-time-codes.ts';
import { providerPlugin, WITHOUT_TOKENS } from './provider.ts';
import { wayOf } from './refused-sign-ins.ts';

const DAY_S = 24 * 3600;
/** How long an account is locked after too many wrong codes of its second factor, in s. */
export const LOCK_S = 15 * 60;
const BASE_PATH = '/api/auth';

/** Enabled routes of better-auth. Its routes for accounts are off, because the API creates, renames and deletes accounts. */
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

/** Whether better-auth handles a request. */
export function isAuthRoute(method: string, path: string): boolean {
  return path.startsWith(`${BASE_PATH}/`) && ROUTES.has(`${method} ${path.slice(BASE_PATH.length)}`);
}

/**
 * Returns the prefix of our cookies. Over HTTPS, browsers let only this origin set `__Host-` cookies. Over HTTP they reject
 * such names.
 */
export function cookiePrefix({ PUBLIC_UI_URL }: Env): string {
  return PUBLIC_UI_URL.startsWith('https:') ? '__Host-cellar' : 'cellar';
}

/** Configures better-auth. It stores everything in the database, except for rate limits. */
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
        // One limit for all routes, instead of better-auth's limits for single routes.
        consume: async (key: string) => {
          const wait = budget.admit(key.split('|', 1)[0]!, Date.now());
          return { allowed: wait === 0, retryAfter: wait === 0 ? null : wait };
        },
      },
    },
    advanced: {
      // Reads session and person in one query instead of two, because every call of a page needs them.
      database: { joins: true },
      cookiePrefix: prefix,
      // better-auth would add another prefix to ours.
      useSecureCookies: false,
      defaultCookieAttributes: { secure, sameSite: 'strict', httpOnly: true, path: '/' },
      ipAddress: { ipAddressHeaders: ['x-real-ip'] },
      // Browsers do not send a `SameSite=Strict` cookie when the provider redirects a person back.
      cookies: { state: { attributes: { sameSite: 'lax' } } },
    },
    onAPIError: { errorURL: `${env.PUBLIC_UI_URL}/sign-in` },
    databaseHooks: {
      ...WITHOUT_TOKENS,
      session: { create: { after: (session, context) => noted(env, session, context?.path) } },
    },
    hooks: oneTimeCodes(env),
    plugins: [
      providerPlugin(env),
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
/** Writes a sign-in to the audit log. A sign-in with a second factor gets an entry for each step. Never rejects. */
async function noted(
  env: Env,
  { userId, ipAddress }: { userId: string; ipAddress?: string | null | undefined },
  path = '',
): Promise<void> {
  const by = wayOf(path);
  await askAbout(env, 'signed_in', { account: userId, by, address: ipAddress ?? '' }).catch(() => {});
}

export type Auth = ReturnType<typeof createAuth>;
