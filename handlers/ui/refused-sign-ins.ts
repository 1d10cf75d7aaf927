// Reports refused sign-ins to the audit log. The log never has the password or code that was entered.
import { askAbout } from './api.ts';
import type { Env } from './env.ts';
import { addressOf } from './limits.ts';

/** Who wanted to sign in, as far as that is known. */
export interface Claimant {
  account?: string | undefined;
  /**
   * An e-mail address that finds the account. The entry does not have it, because people enter passwords there by mistake.
   */
  email?: string | undefined;
}

/** Adds a refused sign-in to the audit log. Never rejects. @param path better-auth's route @param code of the refusal */
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

/** Returns how the audit log names a way to sign in. @param path better-auth's route, such as `/sign-in/email` */
export function wayOf(path: string): string {
  return path === '/callback/:id' ? 'provider' : path.replace(/^\//, '');
}
