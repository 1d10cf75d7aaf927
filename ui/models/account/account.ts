// The signed-in account: its name, keys, and sign-in methods.
import { signal } from '@preact/signals';
import { api, type Failure, type Result, serverRoute } from '../../api.ts';
import { resource } from '../../live.ts';
import { loadSession } from '../../session.ts';
import { pages } from '../pages.ts';

const DAY_MS = 24 * 3_600_000;

/** A key to make. `app` is empty for all apps, `days` null for a key that does not expire. */
export interface NewKey {
  name: string;
  scope: 'read' | 'deploy' | 'admin';
  app: string;
  days: number | null;
}

export type Key = Result<'keys.list'>['items'][number];

/** A signed-in browser. */
export interface SignedIn {
  token: string;
  userAgent: string | null;
  ipAddress: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Passkey {
  id: string;
  name: string | null;
  createdAt: string;
}

export function accountModel(account: string) {
  const keys = pages(
    (cursor, signal) => api('keys.list', { account, limit: 200, cursor }, { signal }),
    ({ id }: Key) => id,
  );
  const sessions = pages(
    async (_, signal) => ({
      items: (await serverRoute<SignedIn[]>('/api/auth/list-sessions', undefined, signal)).toSorted((a, b) =>
        b.updatedAt.localeCompare(a.updatedAt),
      ),
      next_cursor: null,
    }),
    ({ token }) => token,
  );
  const passkeys = pages(
    async (_, signal) => ({
      items: await serverRoute<Passkey[]>('/api/auth/passkey/list-user-passkeys', undefined, signal),
      next_cursor: null,
    }),
    ({ id }) => id,
  );
  const apps = resource((signal) => api('apps.list', { limit: 200 }, { signal }));
  return {
    keys,
    apps,
    sessions,
    passkeys,
    async rename(name: string) {
      await api('accounts.rename', { account, name });
      await loadSession();
    },
    async changePassword(currentPassword: string, newPassword: string) {
      await serverRoute('/api/auth/change-password', {
        currentPassword,
        newPassword,
        revokeOtherSessions: true,
      });
      await sessions.refresh();
    },
    /** Creates a key. @returns the key, which is shown only once */
    async makeKey({ name, scope, app, days }: NewKey): Promise<string> {
      const expires_at = days === null ? undefined : new Date(Date.now() + days * DAY_MS).toISOString();
      const { key } = await api('keys.create', {
        account,
        name,
        scope,
        ...(app !== '' && { app }),
        ...(expires_at !== undefined && { expires_at }),
      });
      await keys.refresh();
      return key;
    },
    revokeKey: (id: string) => api('keys.revoke', { id }),
    async endSession(token: string) {
      await serverRoute('/api/auth/revoke-session', { token });
      await sessions.refresh();
    },
    async endOtherSessions() {
      await serverRoute('/api/auth/revoke-other-sessions', {});
      await sessions.refresh();
    },
    /** Creates a passkey. @returns false when the person cancelled, or the browser could not create it */
    async addPasskey(name: string): Promise<boolean> {
      const options = await serverRoute<PublicKeyCredentialCreationOptionsJSON>(
        '/api/auth/passkey/generate-register-options',
      );
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
      const made = await navigator.credentials.create({ publicKey }).catch(() => null);
      if (made === null) return false;
      await serverRoute('/api/auth/passkey/verify-registration', {
        response: (made as PublicKeyCredential).toJSON(),
        name,
      });
      await passkeys.refresh();
      return true;
    },
    removePasskey: (id: string) => serverRoute('/api/auth/passkey/delete-passkey', { id }),
    close() {
      keys.close();
      apps.close();
      sessions.close();
      passkeys.close();
    },
  };
}

/** Turns the second factor on or off. To turn it on: the password, then a code of the authenticator app. */
export function secondFactorModel() {
  const made = signal<{ secret: string; uri: string; backupCodes: string[] } | null>(null);
  return {
    made,
    async begin(password: string) {
      const { totpURI, backupCodes } = await serverRoute<{ totpURI: string; backupCodes: string[] }>(
        '/api/auth/two-factor/enable',
        { password },
      );
      made.value = { uri: totpURI, secret: new URL(totpURI).searchParams.get('secret') ?? '', backupCodes };
    },
    async finish(code: string) {
      await serverRoute('/api/auth/two-factor/verify-totp', { code: code.replaceAll(' ', '') });
      await loadSession();
    },
    async turnOff(password: string) {
      await serverRoute('/api/auth/two-factor/disable', { password });
      await loadSession();
    },
  };
}

/** Returns a browser's short name from its user agent: `Firefox on Linux`. */
export function browserOf(userAgent: string | null): string {
  if (!userAgent) return 'Unknown';
  const name = (
    [
      [/Edg\//, 'Edge'],
      [/OPR\//, 'Opera'],
      [/Firefox\//, 'Firefox'],
      [/Chrom(e|ium)\//, 'Chrome'],
      [/Safari\//, 'Safari'],
      [/^curl/, 'curl'],
    ] as const
  ).find(([sign]) => sign.test(userAgent))?.[1];
  const system = (
    [
      [/iPhone|iPad/, 'iOS'],
      [/Android/, 'Android'],
      [/Mac OS X/, 'macOS'],
      [/Windows/, 'Windows'],
      [/Linux|X11/, 'Linux'],
    ] as const
  ).find(([sign]) => sign.test(userAgent))?.[1];
  return [name ?? 'A program', system && `on ${system}`].filter(Boolean).join(' ');
}

/** Returns the message for a failed call that sent the present password. */
export function passwordProblem(failure: Failure): string {
  return failure.status === 400 || failure.status === 401
    ? 'The current password is wrong.'
    : failure.message;
}
