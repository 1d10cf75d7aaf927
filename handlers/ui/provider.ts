// Sign-in by a provider of OpenID Connect.
import { APIError } from 'better-auth/api';
import {
  type GenericOAuthConfig,
  type GenericOAuthUserInfo,
  genericOAuth,
} from 'better-auth/plugins/generic-oauth';
import { endSessionBy, forgetPerson, keepPerson, personOf } from '../../sqlite/sign-in/people.ts';
import { cutText } from '../contract/text.ts';
import { Problem } from '../problem.ts';
import { askAbout } from './api.ts';
import type { Env } from './env.ts';
import { type Claimant, reportRefusal } from './refused-sign-ins.ts';

const PROVIDER = 'oidc';
/** Path to which the provider redirects people. */
export const CALLBACK = `/api/auth/callback/${PROVIDER}`;
/** better-auth's name for the route `CALLBACK`. */
const ROUTE = '/callback/:id';
/**
 * Parts of the paths that are off when the provider is required: they sign in, set a password, add a passkey, or replace a
 * session by a new one.
 */
const OTHER_WAYS = [
  '/sign-in/email',
  '/passkey/generate-',
  '/passkey/verify-',
  '/change-password',
  '/two-factor/',
  '/forgot',
  '/welcome',
  '/invites/accept',
];
const NAME_CHARACTERS = 100;
/**
 * Maximum age of a session, in ms, of a person whom the provider knows, and of everybody when the provider is required.
 * Groups are read only at a sign-in, so people must sign in again.
 */
const SESSION_MS = 24 * 3_600_000;

/** The part of better-auth that this file calls. */
interface Library {
  handler: (request: Request) => Promise<Response>;
}

/** Returns the data about the provider that the sign-in page shows; null without a provider. */
export function shownProvider({ OIDC_URL, OIDC_NAME, OIDC_REQUIRED }: Env) {
  return OIDC_URL === '' ? null : { name: OIDC_NAME, required: OIDC_REQUIRED === 'on' };
}

/** Refuses a path of `OTHER_WAYS` when people can sign in only by the provider. @throws {Problem} `forbidden` */
export function requireAllowedWay(path: string, { OIDC_REQUIRED, OIDC_NAME }: Env): void {
  const isOff = OIDC_REQUIRED === 'on' && OTHER_WAYS.some((each) => path.includes(each));
  if (isOff)
    throw new Problem('forbidden', `Passwords and passkeys are off here: sign in with ${OIDC_NAME}.`);
}

/**
 * Ends a session that is older than `SESSION_MS`, if the provider knows its person or is required.
 * @returns whether the session was ended
 */
export async function endOldSession(
  { DB, OIDC_URL, OIDC_REQUIRED }: Env,
  { id, createdAt }: { id: string; createdAt: Date },
): Promise<boolean> {
  if (OIDC_URL === '' || Date.now() - createdAt.getTime() < SESSION_MS) return false;
  return endSessionBy(DB, OIDC_REQUIRED === 'on' ? null : PROVIDER, id);
}

/** Configures better-auth's plugin for OpenID Connect. It checks state, nonce, PKCE and the signature of the ID token. */
export function providerPlugin(env: Env) {
  if (env.OIDC_URL === '') return genericOAuth({ config: [] });
  const provider: GenericOAuthConfig = {
    providerId: PROVIDER,
    name: env.OIDC_NAME,
    discoveryUrl: env.OIDC_URL,
    clientId: env.OIDC_CLIENT_ID,
    clientSecret: env.OIDC_CLIENT_SECRET,
    scopes: env.OIDC_SCOPES.split(' '),
    requireIdTokenVerification: true,
    accountSubject: ({ profile }) => subjectOf(profile, env),
    // The control plane decides who has an account, in `arrive`.
    disableSignUp: true,
    mapProfileToUser: (profile) => arrive(profile, env),
  };
  return genericOAuth({ config: [provider] });
}

/** Options of better-auth that drop the provider's tokens, because nothing uses them after the sign-in. */
export const WITHOUT_TOKENS = {
  account: { create: { before: withoutTokens }, update: { before: withoutTokens } },
};

async function withoutTokens(account: object) {
  return { data: { ...account, accessToken: null, refreshToken: null, idToken: null } };
}

/**
 * Begins a sign-in.
 * @returns a response with the provider's URL, to which the page navigates
 * @throws {Problem} `host_unavailable`
 */
export async function begin(request: Request, auth: Library, { PUBLIC_UI_URL }: Env): Promise<Response> {
  const url = `${PUBLIC_UI_URL}/api/auth/sign-in/social`;
  // The URLs after the sign-in are fixed, so that a request cannot redirect people elsewhere.
  const body = { provider: PROVIDER, callbackURL: '/', errorCallbackURL: '/sign-in', disableRedirect: true };
  const headers = new Headers(request.headers);
  headers.set('content-type', 'application/json');
  headers.delete('content-length');
  const answer = await auth.handler(
    new Request(url, { method: 'POST', headers, body: JSON.stringify(body) }),
  );
  if (answer.ok || answer.status === 429) return answer;
  await answer.body?.cancel();
  throw new Problem(
    'host_unavailable',
    'The sign-in provider does not answer as expected. Try again later; the operator finds the reason in the log of Cellar.',
  );
}

/** Completes a sign-in after the provider redirected the person back. Redirects a refused person to the sign-in page. */
export async function end(request: Request, auth: Library, env: Env): Promise<Response> {
  const answer = await auth.handler(request);
  if (answer.status === 429) return answer;
  if (answer.status < 400) {
    const { searchParams } = new URL(answer.headers.get('location') ?? '/', env.PUBLIC_UI_URL);
    if (searchParams.has('error')) await reportRefusal(env, ROUTE, request.headers, {}, 'unauthorized');
    return answer;
  }
  const refusal = (await answer.json().catch(() => ({}))) as { code?: string } & Claimant;
  const code = (refusal.code ?? 'unknown').toLowerCase();
  await reportRefusal(env, ROUTE, request.headers, refusal, code);
  const location = `/sign-in?${new URLSearchParams({ error: code })}`;
  return new Response(null, { status: 302, headers: { location } });
}

/** Returns a person's id, unique also among people of an earlier provider; empty when the profile has no id. */
function subjectOf({ sub }: GenericOAuthUserInfo, { OIDC_URL }: Env): string {
  return sub == null || sub === '' ? '' : `${sub} ${OIDC_URL}`;
}

/** Returns the account of a person whom the provider has signed in, and copies it to the database of sign-in. */
async function arrive(profile: GenericOAuthUserInfo, env: Env) {
  const subject = subjectOf(profile, env);
  const email = String(profile.email ?? '').toLowerCase();
  if (subject === '' || email === '') throw refused('email_not_found', {});
  const known = await personOf(env.DB, PROVIDER, subject);
  const who = { email, ...(known !== null && { account: known }) };
  const role = roleOf(profile[env.OIDC_GROUPS_CLAIM], env);
  if (role === 'none') throw refused('no_role', who);
  const name = cutText(String(profile.name ?? '').trim() || email, NAME_CHARACTERS);
  const verified = profile.emailVerified === true || profile.email_verified === true;
  const { drops_credentials, ...account } = await askAbout(env, 'arrive', {
    account: known,
    email,
    verified,
    name,
    role,
  }).catch((error: unknown) => {
    throw error instanceof Problem && error.code === 'forbidden' ? refused('email_not_verified', who) : error;
  });
  // The person's earlier account was deleted, so its sign-in data goes too.
  if (known !== null && known !== account.id) await forgetPerson(env.DB, known);
  // Deletes password, passkeys and sessions, which may be another person's.
  if (drops_credentials) await forgetPerson(env.DB, account.id);
  const person = { ...account, email: account.email === '' ? email : account.email };
  await keepPerson(env.DB, person, new Date().toISOString());
  return { email: person.email, name: person.name, emailVerified: true };
}

/** Returns the role of the first matching group; null when Cellar's roles apply, `none` when no group matches. */
function roleOf(groups: unknown, { OIDC_ROLES }: Env) {
  const roles = JSON.parse(OIDC_ROLES) as [string, 'admin' | 'member' | 'guest'][] | null;
  if (roles === null) return null;
  const own = new Set(Array.isArray(groups) ? groups : [groups]);
  return roles.find(([group]) => group === '*' || own.has(group))?.[1] ?? 'none';
}

/** Returns the error for a refused person. @param who the person, whom `end` reads from the error */
function refused(code: string, who: Claimant): APIError {
  return new APIError('FORBIDDEN', { code, message: code, ...who });
}
