// Sign-in with a password, with delays against guessing.
import * as z from 'zod';
import { Problem } from '../problem.ts';
import { readJson } from '../transports/body.ts';
import type { Auth } from './auth.ts';
import { type Attempts, TooMany } from './limits.ts';

const BODY_BYTES = 16 * 1024;
const input = z.object({ email: z.string().max(254) });

/**
 * Signs a person in through better-auth.
 * @throws {TooMany} before better-auth is called, when too many recent attempts on this address failed
 */
export async function signInByPassword(request: Request, auth: Auth, attempts: Attempts): Promise<Response> {
  const body = await readJson(request, BODY_BYTES);
  const { success, data } = input.safeParse(body);
  if (!success) throw new Problem('invalid_input', 'A sign-in needs an e-mail address and a password.');
  const account = data.email.toLowerCase();
  const wait = attempts.begin(account, Date.now());
  if (wait > 0) throw new TooMany(wait, 'Too many attempts on this account failed.');
  const { url, method, headers } = request;
  const response = await auth.handler(new Request(url, { method, headers, body: JSON.stringify(body) }));
  if (response.ok) attempts.succeeded(account);
  return response;
}
