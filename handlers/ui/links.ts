// Links with which people set a password: the link of the first start, invites, and links for a new password. Each works
// once.
import * as z from 'zod';
import { setPassword } from '../../sqlite/sign-in/people.ts';
import { newId } from '../contract/id.ts';
import { PASSWORD_MAX, PASSWORD_MIN } from '../contract/people/sign-in.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';
import { readJson } from '../transports/body.ts';
import { validate } from '../transports/validate.ts';
import { askAbout } from './api.ts';
import type { Auth } from './auth.ts';
import type { Env } from './env.ts';
import { type Attempts, addressOf, TooMany } from './limits.ts';

const BODY_BYTES = 16 * 1024;
const lookInput = z.strictObject({ token: z.string() });
const forgotInput = z.strictObject({ email: z.string().max(254) });
const useInput = z.strictObject({
  token: z.string(),
  name: z.string(),
  email: z.string(),
  password: z.string().min(PASSWORD_MIN).max(PASSWORD_MAX),
});

/**
 * Mails a link for a new password to an address, if an account has the address. The answer is the same for every address.
 * @throws {TooMany} when there were too many recent requests for the address
 */
export async function forgot(request: Request, env: Env, attempts: Attempts): Promise<Response> {
  const { email } = validate(forgotInput, await readJson(request, BODY_BYTES));
  const wait = attempts.begin(`forgot ${email.toLowerCase()}`, Date.now());
  if (wait > 0) throw new TooMany(wait, 'Too many links for this e-mail address were requested.');
  await askAbout(env, 'forgot', { email });
  return Response.json({});
}

/** Returns the purpose of a link. @throws {Problem} `invite_not_found` */
export async function look(request: Request, env: Env): Promise<Response> {
  const { token } = validate(lookInput, await readJson(request, BODY_BYTES));
  return Response.json(await askAbout(env, 'look', { token }));
}

/** Applies an invite to an account. @throws {Problem} `invite_not_found` */
export async function join(request: Request, env: Env, account: string): Promise<Response> {
  const { token } = validate(lookInput, await readJson(request, BODY_BYTES));
  return Response.json(await askAbout(env, 'join', { token, account, address: addressOf(request.headers) }));
}

/**
 * Uses a link: sets the account's password, and signs in. Of two concurrent uses, one is refused. The account is created
 * first, and the link is closed after the password is set. So an interrupted person can use the link again.
 * @throws {Problem} `invite_not_found`, `email_taken`, `invalid_input`
 */
export async function useLink(request: Request, env: Env, auth: Auth): Promise<Response> {
  const { token, name, email, password } = validate(useInput, await readJson(request, BODY_BYTES));
  const { keeps_factors, ...account } = await askAbout(env, 'claim', { token, name, email });
  const { password: hasher } = await auth.$context;
  const credential = { id: newId(), hash: await hasher.hash(password) };
  const at = new Date().toISOString();
  const isFirst = await setPassword(env.DB, await hashOf(token), account, credential, at, keeps_factors);
  await askAbout(env, 'close', { token, account: account.id, address: addressOf(request.headers) });
  if (!isFirst) throw new Problem('invite_not_found');
  const signedIn = await auth.api.signInEmail({
    body: { email: account.email, password },
    headers: request.headers,
    asResponse: true,
  });
  const headers = new Headers();
  for (const cookie of signedIn.headers.getSetCookie()) headers.append('set-cookie', cookie);
  return Response.json({ account }, { headers });
}
