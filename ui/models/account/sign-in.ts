// Sign-in by password, passkey and second factor, and links that create an account.
import { signal } from '@preact/signals';
import type { LinkPurpose } from '../../../handlers/contract/people/sign-in.ts';
import { Failure, serverRoute } from '../../api.ts';
import { isEnded, keepInvite, loadSession } from '../../session.ts';

const WRONG = 'This e-mail address and password do not belong together.';

/** Messages for a sign-in by the provider that failed, by the error code in the page's URL. */
const REFUSALS: Readonly<Record<string, string>> = {
  no_role: 'None of your groups has a role on this machine. Ask its operator.',
  email_not_verified:
    'The sign-in provider has not verified your e-mail address. Verify it there, then sign in again.',
  email_not_found: 'The sign-in provider did not send your e-mail address. Ask the operator of this machine.',
  access_denied: 'You or the provider cancelled the sign-in.',
  state_mismatch: 'This sign-in took too long, or began in another window. Sign in again.',
};
const REFUSED = 'The sign-in did not work. Try again, or ask the operator of this machine.';

/**
 * Goes to the provider's page. Opens it in a new tab if this one keeps unsaved text.
 * @param invite the token of the invite to continue with after the sign-in; empty for none
 * @throws {Failure} when the server refuses, or cannot be reached
 */
async function goToProvider(invite: string): Promise<void> {
  const { url } = await serverRoute<{ url: string }>('/oidc', {});
  if (invite !== '') keepInvite(invite);
  const tab = isEnded.peek() ? window.open(url) : null;
  // Without a new tab, such as when the browser blocks it, the browser asks before it leaves the text.
  if (tab === null) location.assign(url);
  else tab.opener = null;
}

/**
 * Model of the sign-in screen. `step` is the current form. `wrong` says why the last attempt failed; null if it did not.
 * @param refusal the error code of a sign-in by the provider that failed; empty for none
 */
export function signInModel(refusal = '') {
  const step = signal<'password' | 'code' | 'backup' | 'forgot' | 'sent'>('password');
  const wrong = signal<string | null>(refusal === '' ? null : (REFUSALS[refusal] ?? REFUSED));

  const attempt = async (run: () => Promise<void>, refused: string) => {
    wrong.value = null;
    try {
      await run();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      wrong.value = error.status === 401 || error.status === 400 ? refused : error.message;
    }
  };
  return {
    step,
    wrong,
    /** Goes to the provider's page. @param invite as `goToProvider` takes it */
    byProvider: (invite: string) =>
      attempt(
        () => goToProvider(invite),
        'The sign-in provider cannot be reached now. Try again in a moment.',
      ),
    byPassword: (email: string, password: string) =>
      attempt(async () => {
        const answer = await serverRoute<{ twoFactorRedirect?: boolean }>('/api/auth/sign-in/email', {
          email,
          password,
        });
        if (answer.twoFactorRedirect) step.value = 'code';
        else await loadSession();
      }, WRONG),
    /** Requests a link for a new password, by e-mail. The response does not reveal whether an account has the address. */
    forgot: (email: string) =>
      attempt(async () => {
        await serverRoute('/forgot', { email });
        step.value = 'sent';
      }, 'This is not an e-mail address.'),
    /** Sends the code of the second factor. @param isTrusted whether this browser needs no second factor for 30 days */
    byCode: (code: string, isTrusted: boolean) =>
      attempt(async () => {
        const way = step.value === 'backup' ? 'verify-backup-code' : 'verify-totp';
        await serverRoute(`/api/auth/two-factor/${way}`, {
          code: code.replaceAll(' ', ''),
          trustDevice: isTrusted,
        });
        await loadSession();
      }, 'This code is wrong, or it was used before.'),
    byPasskey: () =>
      attempt(async () => {
        const options = await serverRoute<PublicKeyCredentialRequestOptionsJSON>(
          '/api/auth/passkey/generate-authenticate-options',
        );
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
        // Rejects when the person cancels the browser's dialog.
        const found = await navigator.credentials.get({ publicKey }).catch(() => null);
        if (found === null) return;
        await serverRoute('/api/auth/passkey/verify-authentication', {
          response: (found as PublicKeyCredential).toJSON(),
        });
        await loadSession();
      }, 'No account here has this passkey.'),
  };
}

/** Whether this browser supports passkeys on this page. */
export function hasPasskeys(): boolean {
  return typeof PublicKeyCredential !== 'undefined' && 'parseRequestOptionsFromJSON' in PublicKeyCredential;
}

/** Model of the screens that links open. @param path server route that creates the account or sets the password */
export function linkModel(path: '/welcome' | '/invites/accept', token: string) {
  const purpose = signal<LinkPurpose | null>(null);
  const failure = signal<Failure | null>(null);
  const fields = signal<Record<string, string>>({});
  const look = async () => {
    failure.value = null;
    try {
      purpose.value = await serverRoute<LinkPurpose>('/invites/look', { token });
    } catch (error) {
      failure.value = error as Failure;
    }
  };
  void look();
  return {
    purpose,
    /** Why the last call failed; null if it did not, or if `fields` has the reasons. */
    failure,
    /** Error messages by form field. */
    fields,
    look,
    /** Goes to the provider's page. The person can use the link after the sign-in. */
    async byProvider(): Promise<void> {
      failure.value = null;
      try {
        await goToProvider(token);
      } catch (error) {
        failure.value = error as Failure;
      }
    },
    /** Accepts the invite for the signed-in account. @returns whether that succeeded */
    async join(): Promise<boolean> {
      failure.value = null;
      try {
        await serverRoute('/invites/join', { token });
      } catch (error) {
        failure.value = error as Failure;
        return false;
      }
      // The account's role on the machine may have changed.
      await loadSession();
      return true;
    },
    /** Creates the account, or sets the password, and signs in. @returns whether that succeeded */
    async use(given: { name: string; email: string; password: string }): Promise<boolean> {
      failure.value = null;
      fields.value = {};
      try {
        await serverRoute(path, { token, ...given });
      } catch (error) {
        const { fields: wrong, code, message } = error as Failure;
        if (code === 'email_taken') fields.value = { email: message };
        else if (wrong.length > 0)
          fields.value = Object.fromEntries(wrong.map((each) => [each.path, each.message]));
        else failure.value = error as Failure;
        return false;
      }
      await loadSession();
      return true;
    },
    close() {},
  };
}
