// Links that let people sign in to the control UI. RPC only.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { collaboratorRole } from './accounts.ts';

export const Invite = z.strictObject({
  id,
  /** The e-mail address that the inviter gave. Anybody who has the link can use the link. */
  email: z.string().nullable(),
  /** The account's role on this machine. A `guest` owns no apps. An invite never lowers an account's role. */
  role: z.enum(['admin', 'member', 'guest']),
  /** The app on which the invite gives a role; null when it gives none. */
  app: z.strictObject({ id, slug: z.string(), role: collaboratorRole }).nullable(),
  /** The account whose password the link sets; null when the link creates an account. */
  account: id.nullable(),
  /** The account of the app's admin who invited the person; null when an admin of the machine did. */
  by: id.nullable(),
  created_at: time,
  expires_at: time,
});

const email = z
  .email()
  .max(254)
  .transform((value) => value.toLowerCase());

/** Result of mailing a link. Null: no mail server is set, or the recipient is unknown. */
export const SentMail = z.strictObject({
  to: z.string(),
  /** Why the e-mail was not sent; null when the mail server accepted it. */
  problem: z.string().nullable(),
});

const Made = z.strictObject({ ...Invite.shape, url: z.string(), mail: SentMail.nullable() });

/** An invite to an app. If only the recipient of the e-mail gets the link, its use proves that the address is theirs. */
const MadeToApp = z.strictObject({
  ...Made.shape,
  /** The link. Null when it was mailed, and the inviter is not an admin of the machine. */
  url: z.string().nullable(),
});

export const invites = [
  operation({
    name: 'invites.create',
    summary:
      'Makes a link with which one person signs up or sets a new password; `url` is shown only once, and sent by e-mail if Cellar has a mail server',
    method: 'POST',
    needs: 'runner',
    input: z.strictObject({
      email: email.optional(),
      /** A `guest` needs an `app`. */
      role: z.enum(['admin', 'member', 'guest']).default('member'),
      app: z.strictObject({ id: reference, role: collaboratorRole }).optional(),
      /** An existing account: the link sets a new password. Its role does not change. */
      account: reference.optional(),
    }),
    output: Made,
    status: 201,
    errors: ['app_not_found', 'account_not_found', 'email_taken'],
    secrets: ['url'],
  }),
  operation({
    name: 'invites.list',
    summary: 'Lists the invites that can still be used, oldest first, without their links',
    method: 'GET',
    needs: 'runner',
    input: z.strictObject({ ...page }),
    output: listOf(Invite),
  }),
  operation({
    name: 'invites.revoke',
    summary: 'Revokes an invite that was not used; its link stops working',
    method: 'DELETE',
    needs: 'runner',
    input: z.strictObject({ id: reference }),
    output: nothing,
    errors: ['invite_not_found'],
  }),
  operation({
    name: 'collaborators.invite',
    summary:
      'Makes a link that gives one person a role on the app. A person without an account gets a guest account. The link is sent by e-mail; if that fails, `url` shows the link, only once',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({ id: reference, email, role: collaboratorRole }),
    output: MadeToApp,
    status: 201,
    errors: ['quota_exceeded'],
    secrets: ['url'],
  }),
  operation({
    name: 'collaborators.invites',
    summary: "Lists the app's invites that can still be used, oldest first, without their links",
    method: 'GET',
    needs: 'admin',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Invite),
  }),
  operation({
    name: 'collaborators.revoke_invite',
    summary: 'Revokes an invite to the app that was not used; its link stops working',
    method: 'DELETE',
    needs: 'admin',
    input: z.strictObject({ id: reference, invite: reference }),
    output: nothing,
    errors: ['invite_not_found'],
  }),
] as const;
