// Texts of e-mails about invites and passwords. They contain no free text of users, because they are sent in this Cellar's
// name.

import type * as z from 'zod';
import type { Bindings } from '../../bindings.ts';
import type { Mail } from '../../contract/host/host-calls.ts';
import type { Invite } from '../../contract/people/invites.ts';

/** Returns the URL of a link, with its secret. */
export function inviteUrl({ PUBLIC_UI_URL }: Pick<Bindings, 'PUBLIC_UI_URL'>, secret: string): string {
  return `${PUBLIC_UI_URL}/invite?token=${secret}`;
}

/** For the text of an invite: verbs that describe the rights of each role on an app. */
const MAY = { view: 'look at', push: 'deploy', admin: 'run' };

/** A link in an e-mail. */
interface SentLink {
  to: string;
  url: string;
  /** ISO 8601. */
  expiresAt: string;
}

/** Returns the e-mail with an invite. @param from the inviter's address; null when unknown */
export function inviteMail(
  { to, url, expiresAt }: SentLink,
  { app, role }: Pick<z.output<typeof Invite>, 'app' | 'role'>,
  from: string | null,
): Mail {
  const { host } = new URL(url);
  const onMachine = { admin: 'run the apps of', member: 'bring your apps to', guest: null }[role];
  const what = [
    ...(onMachine === null ? [] : [`${onMachine} ${host}`]),
    ...(app === null
      ? []
      : [`${MAY[app.role]} the app ${app.slug}${onMachine === null ? ` at ${host}` : ''}`]),
  ].join(' and to ');
  return {
    to,
    subject: `You are invited to ${host}`,
    text: `${from ?? 'The operator'} invites you to ${what}.

Open this link. It works once, until ${day(expiresAt)}:

${url}

If you do not know what this is about, ignore this e-mail: nothing happens then.
`,
  };
}

/** Returns the e-mail with a link for a new password. */
export function passwordMail({ to, url, expiresAt }: SentLink): Mail {
  const { host } = new URL(url);
  return {
    to,
    subject: `A new password for ${host}`,
    text: `With this link you set a new password for your account at ${host}. It works once, until ${day(expiresAt)}:

${url}

If you did not expect this e-mail, ignore it: your password does not change.
`,
  };
}

function day(time: string): string {
  return `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`;
}
