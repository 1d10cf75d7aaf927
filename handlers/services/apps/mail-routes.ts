// The e-mail addresses of apps. An app can only get addresses at its own domains, so no account can receive the e-mail of
// another account. `domains.ts` checks which app may have a domain.
import {
  hasMailDomain,
  listMailRoutes,
  type MailRouteRow,
} from '../../../sqlite/control/apps/mail-routes.ts';
import { MAIL_ROUTE_LIMIT, normalMailAddress } from '../../contract/incoming/mail-routes.ts';
import { Problem } from '../../problem.ts';
import { invalidInput } from '../../transports/validate.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';
import { changeApp } from './apps.ts';

const list: Service<'mail.routes.list'> = async ({ reads }, { id, ...page }) => {
  const name = `mail.routes.list ${id}`;
  return listAnswer(name, await listMailRoutes(reads, id, pageAfter(name, page)), (row) => row);
};

const set: Service<'mail.routes.set'> = async (context, { id, address }) => {
  const { BASE_DOMAIN: baseDomain } = context.env;
  const domain = address.slice(address.indexOf('@') + 1);
  const change = { kind: 'mail_route_set', address, domain, baseDomain, limit: MAIL_ROUTE_LIMIT } as const;
  const { changed, row } = await changeApp(context, id, change);
  if (changed !== null) return changed as unknown as MailRouteRow;
  if (await hasMailDomain(context.db, row.id, domain, baseDomain))
    throw new Problem(
      'quota_exceeded',
      `An app may have at most ${MAIL_ROUTE_LIMIT} e-mail addresses; delete one, or set *@${domain}.`,
    );
  const message = `must be at a domain of this app: ${row.slug}.${baseDomain}, or an active custom domain; attach ${domain} first (domains.add)`;
  throw invalidInput([{ path: 'address', message }]);
};

const remove: Service<'mail.routes.delete'> = async (context, { id, address }) => {
  const change = { kind: 'mail_route_delete', address: normalMailAddress(address) ?? address } as const;
  const { changed } = await changeApp(context, id, change);
  if (changed === null)
    throw new Problem('mail_route_not_found', `The app has no e-mail address ${address}.`);
  return null;
};

export const mailRouteServices = {
  'mail.routes.list': list,
  'mail.routes.set': set,
  'mail.routes.delete': remove,
};
