// Links that make people: the first start's, and invites. Each sets a password once.
import * as z from 'zod';
import { setPassword } from '../../sqlite/sign-in/people.ts';
import { newId } from '../contract/id.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';
import { readJson } from '../transports/body.ts';
import { validate } from '../transports/validate.ts';
import { askAbout } from './api.ts';
import { type Auth, PASSWORD_MAX, PASSWORD_MIN } from './auth.ts';
import type { Env } from './env.ts';

const BODY_BYTES = 16 * 1024;
const lookInput = z.strictObject({ token: z.string() });
const useInput = z.strictObject({
  token: z.string(),
  name: z.string(),
  email: z.string(),
  password: z.string().min(PASSWORD_MIN).max(PASSWORD_MAX),
});

/** Says what a link is for. @throws {Problem} `invite_not_found` */
export async function look(request: Request, env: Env): Promise<Response> {
  const { token } = validate(lookInput, await readJson(request, BODY_BYTES));
  return Response.json(await askAbout(env, 'look', { token }));
}

/**
 * Uses a link: its account has this password then, and the browser is signed in. Of two who use it at once one is refused.
 * The account is made before, and the link ends after: whoever is interrupted in between can use the link again.
 * @throws {Problem} `invite_not_found`, `email_taken`, `invalid_input`
 */
export async function useLink(request: Request, env: Env, auth: Auth): Promise<Response> {
  const { token, name, email, password } = validate(useInput, await readJson(request, BODY_BYTES));
  const account = await askAbout(env, 'claim', { token, name, email });
  const { password: hasher } = await auth.$context;
  const credential = { id: newId(), hash: await hasher.hash(password) };
  const at = new Date().toISOString();
  const isFirst = await setPassword(env.DB, await hashOf(token), account, credential, at);
  await askAbout(env, 'close', { token });
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
