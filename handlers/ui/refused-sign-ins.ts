// Reports refused sign-ins to the audit log, without the password or code that was entered.
import { askAbout } from './api.ts';
import type { Env } from './env.ts';
import { addressOf } from './limits.ts';

/** The person who tried to sign in, as far as known. */
export interface Claimant {
  account?: string | undefined;
  /**
   * The entered e-mail address, by which the account is found. The audit entry omits it, because people sometimes enter their
   * password in this field by mistake.
   */
  email?: string | undefined;
}

/** Adds a refused sign-in to the audit log. Never rejects. @param path better-auth's route @param code the reason */
export async function reportRefusal(
  env: Env,
  path: string,
  headers: Headers | undefined,
  { account, email }: Claimant,
  code: string,
): Promise<void> {
  const by = wayOf(path);
  const address = addressOf(headers);
  const who = { account: account ?? null, email: email?.slice(0, 254).toLowerCase() ?? null };
  await askAbout(env, 'refused', { ...who, by, address, code }).catch(() => {});
}

/** Returns the audit log's name for a way to sign in. @param path better-auth's route, such as `/sign-in/email` */
export function wayOf(path: string): string {
  return path === '/callback/:id' ? 'provider' : path.replace(/^\//, '');
}
