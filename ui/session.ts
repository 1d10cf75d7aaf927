// The session: the signed-in account and public URLs.
import { computed, signal } from '@preact/signals';
import type { SignedIn } from '../handlers/contract/people/sign-in.ts';
import { serverRoute, signedOut } from './api.ts';
import { forgetKept } from './unsaved.ts';

export interface Session {
  account: SignedIn;
  /** `app` has `{slug}` in it. */
  urls: { api: string; git: string; app: string };
  version: string;
  /** Whether sign-in needs a code besides the password. */
  second_factor: boolean;
  /** Whether the machine has a bucket. */
  bucket: boolean;
  /** Whether this machine receives e-mails for apps. */
  receives_mail: boolean;
  /** The TCP ports that apps may have, such as `20000-20100`; empty for none. */
  tcp_ports: string;
  /** Where new apps keep their data by default. */
  storage: 'local' | 'bucket';
  /** Whether the machine is one of several hosts. */
  hosts: boolean;
}

/** `null`: not signed in. `undefined`: not known yet. */
export const session = signal<Session | null | undefined>(undefined);
/** The provider by which people sign in, if there is one. `required`: there is no other way. */
export const provider = signal<{ name: string; required: boolean } | null>(null);
/** Whether this machine sends e-mails. */
export const sendsMail = signal(false);
export const isAdmin = computed(() => session.value?.account.role === 'admin');
/** Whether the account may see the list of hosts, which only a Cellar with several hosts has. */
export const seesHosts = computed(() => isAdmin.value && session.value!.hosts);
/** Whether apps are served below `localhost`, to which no DNS name can lead. */
export const isLocal = computed(
  () =>
    session.value != null &&
    new URL(session.value.urls.app.replace('{slug}', 'a')).hostname === 'a.localhost',
);
/** The domain below which each app has its own name. */
export const baseDomain = computed(() =>
  new URL(session.value!.urls.app.replace('{slug}', 'a')).hostname.slice('a.'.length),
);
/** Whether the account may create apps. A guest may not. */
export const ownsApps = computed(() => session.value?.account.role !== 'guest');

/** Reads the session from the server. @throws {Failure} when it does not respond */
export async function loadSession(): Promise<void> {
  const answer = await serverRoute<
    (Session | { account: null }) & { mail: boolean; provider: typeof provider.value }
  >('/session');
  provider.value = answer.provider;
  sendsMail.value = answer.mail;
  session.value = answer.account === null ? null : answer;
}

/** Key in `sessionStorage`, which keeps the token while the person is at the provider's page. */
const INVITE = 'invite';

/** Keeps the token of an invite while its person signs in at the provider. */
export function keepInvite(token: string): void {
  sessionStorage.setItem(INVITE, token);
}

/** Returns the kept token, once; empty for none. */
export function takeInvite(): string {
  const token = sessionStorage.getItem(INVITE) ?? '';
  sessionStorage.removeItem(INVITE);
  return token;
}

/** Ends the session on the server, then here. @throws {Failure} when the server does not end it */
export async function signOut(): Promise<void> {
  await serverRoute('/api/auth/sign-out', {});
  session.value = null;
}

/** Id of the last signed-in account. */
let last: string | null = null;
session.subscribe((now) => {
  if (!now) return;
  if (last !== null && last !== now.account.id) forgetKept();
  last = now.account.id;
});

// When a call says that nobody is signed in, ends the session here. The sign-in screen then returns to this screen.
signedOut.subscribe((times) => {
  if (times > 0) session.value = null;
});
