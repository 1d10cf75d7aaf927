// The session: the signed-in account and public URLs.
import { computed, signal } from '@preact/signals';
import type { SignedIn } from '../handlers/contract/people/sign-in.ts';
import { serverRoute, signedOut } from './api.ts';
import { forgetKept, hasUnsaved } from './unsaved.ts';

export interface Session {
  account: SignedIn;
  /** Public URLs. `app` has the placeholder `{slug}`. */
  urls: { api: string; git: string; app: string };
  version: string;
  /** Whether the account's sign-in needs a code besides the password. */
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

/** Null: not signed in. Undefined: not read yet. */
export const session = signal<Session | null | undefined>(undefined);
/** Whether the session has ended while its screen had unsaved text. That screen then stays, below the sign-in screen. */
export const isEnded = signal(false);
/** The provider by which people sign in; null without one. `required`: people cannot sign in any other way. */
export const provider = signal<{ name: string; required: boolean } | null>(null);
/** Whether this machine sends e-mails. */
export const sendsMail = signal(false);
export const isAdmin = computed(() => session.value?.account.role === 'admin');
/** Whether the account may see the list of hosts, which only a Cellar with several hosts has. */
export const seesHosts = computed(() => isAdmin.value && session.value!.hosts);
/** Whether apps are served below `localhost`, to which DNS records cannot point. */
export const isLocal = computed(
  () =>
    session.value != null &&
    new URL(session.value.urls.app.replace('{slug}', 'a')).hostname === 'a.localhost',
);
/** The domain below which each app has its hostname. */
export const baseDomain = computed(() =>
  new URL(session.value!.urls.app.replace('{slug}', 'a')).hostname.slice('a.'.length),
);
/** Whether the account may create apps. A guest may not. */
export const ownsApps = computed(() => session.value?.account.role !== 'guest');

/** Reads the session from the server. @throws {Failure} when it cannot be read */
export async function loadSession(): Promise<void> {
  const answer = await serverRoute<
    (Session | { account: null }) & { mail: boolean; provider: typeof provider.value }
  >('/session');
  provider.value = answer.provider;
  sendsMail.value = answer.mail;
  if (answer.account !== null) session.value = answer;
  else if (!isEnded.peek()) session.value = null;
}

/** Reads the session whenever a page without one becomes visible: the person may have signed in in another tab. */
export function watchSession(): void {
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden' || (session.peek() !== null && !isEnded.peek())) return;
    // Ignores a failure: the next change of visibility reads it again.
    loadSession().catch(() => {});
  });
}

/** Key in `sessionStorage` of an invite's token, while the person is at the provider's page. */
const INVITE = 'invite';

/** Keeps the token of an invite while the person signs in at the provider. */
export function keepInvite(token: string): void {
  sessionStorage.setItem(INVITE, token);
}

/** Returns the kept token of an invite, and deletes it; empty for none. */
export function takeInvite(): string {
  const token = sessionStorage.getItem(INVITE) ?? '';
  sessionStorage.removeItem(INVITE);
  return token;
}

/** Ends the session on the server, then in this page. @throws {Failure} when the server does not end it */
export async function signOut(): Promise<void> {
  await serverRoute('/api/auth/sign-out', {});
  session.value = null;
}

/** Id of the account that signed in last; null before. */
let last: string | null = null;
session.subscribe((now) => {
  isEnded.value = false;
  if (!now) return;
  if (last !== null && last !== now.account.id) forgetKept();
  last = now.account.id;
});

// When a response says that nobody is signed in, ends the session in this page. The URL stays, so a sign-in shows the same
// screen again.
signedOut.subscribe((times) => {
  if (times === 0) return;
  if (session.peek() && hasUnsaved()) isEnded.value = true;
  else session.value = null;
});
