// The e-mail addresses whose messages an app's `email()` handler gets.
import * as z from 'zod';
import { normalHostname } from '../apps/domains.ts';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Maximum addresses of one app. */
export const MAIL_ROUTE_LIMIT = 100;
const NAME = /^(?:\*|[a-z0-9!#$%&'+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'+/=?^_`{|}~-]+)*)$/;
/** Maximum characters before the `@`, as in SMTP. */
const NAME_LENGTH = 64;
const ADDRESS_LENGTH = 254;

/**
 * Normalizes an e-mail address to lower case. Its domain becomes ASCII (punycode), without a trailing dot.
 * @returns null when the text is neither `name@domain` nor `*@domain`
 */
export function normalMailAddress(given: string): string | null {
  const at = given.lastIndexOf('@');
  const name = given.slice(0, at).trim().toLowerCase();
  const after = given.slice(at + 1);
  if (at < 1 || name.length > NAME_LENGTH || !NAME.test(name) || /[/?#:]/.test(after)) return null;
  const domain = normalHostname(after);
  const address = `${name}@${domain}`;
  return domain === null || address.length > ADDRESS_LENGTH ? null : address;
}

const address = z
  .string()
  .max(2_000)
  .transform((given, context) => {
    const normal = normalMailAddress(given);
    if (normal !== null) return normal;
    context.addIssue({
      code: 'custom',
      message: 'must be an e-mail address such as info@shop.example.com, or *@shop.example.com for all',
    });
    return z.NEVER;
  });

export const MailRoute = z.strictObject({ address: z.string(), app_id: id, created_at: time });
export type MailRoute = z.output<typeof MailRoute>;

export const mailRoutes = [
  operation({
    name: 'mail.routes.list',
    summary: 'Lists the e-mail addresses of an app',
    method: 'GET',
    path: '/v1/apps/:id/mail/routes',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(MailRoute),
  }),
  operation({
    name: 'mail.routes.set',
    summary:
      "Delivers messages to an e-mail address at one of the app's domains to the app's email() handler",
    method: 'POST',
    path: '/v1/apps/:id/mail/routes',
    needs: 'admin',
    input: z.strictObject({ id: reference, address }),
    output: MailRoute,
    status: 201,
    errors: ['quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'mail.routes.delete',
    summary: 'Removes an e-mail address from an app; Cellar then refuses messages to the address',
    method: 'DELETE',
    path: '/v1/apps/:id/mail/routes/:address',
    needs: 'admin',
    input: z.strictObject({ id: reference, address: reference }),
    output: nothing,
    errors: ['mail_route_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
