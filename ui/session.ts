// Who is signed in, and where things are.
import { computed, signal } from '@preact/signals';
import type { SignedIn } from '../handlers/contract/people/sign-in.ts';
import { serverRoute, signedOut } from './api.ts';
import { forgetKept } from './unsaved.ts';

export interface Session {
  account: SignedIn;
  /** `app` has `{slug}` in it. */
  urls: { api: string; git: string; app: string };
  version: string;
  /** Whether a code is asked for besides the password. */
  second_factor: boolean;
}

/** `null`: nobody is signed in. `undefined`: not asked yet. */
export const session = signal<Session | null | undefined>(undefined);
/** Whether this machine sends e-mails. */
export const sendsMail = signal(false);
export const isAdmin = computed(() => session.value?.account.role === 'admin');
/** Whether one may make apps: a guest was invited to those of others. */
export const ownsApps = computed(() => session.value?.account.role !== 'guest');

/** Asks the server who is signed in. @throws {Failure} when it does not answer */
export async function loadSession(): Promise<void> {
  const answer = await serverRoute<(Session | { account: null }) & { mail: boolean }>('/session');
  sendsMail.value = answer.mail;
  session.value = answer.account === null ? null : answer;
}

/** Ends the session on the server, then here. @throws {Failure} */
export async function signOut(): Promise<void> {
  await serverRoute('/api/auth/sign-out', {});
  session.value = null;
}

/** Who was signed in last, by id. */
let last: string | null = null;
session.subscribe((now) => {
  if (!now) return;
  if (last !== null && last !== now.account.id) forgetKept();
  last = now.account.id;
});

// A call that says nobody is signed in ends the session here: the sign-in takes its place and comes back.
signedOut.subscribe((times) => {
  if (times > 0) session.value = null;
});
