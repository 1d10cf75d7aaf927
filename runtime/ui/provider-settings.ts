// Parsers of the settings for sign-in by OpenID Connect.
import { z } from 'zod';
import { reason } from '../log.ts';

const WELL_KNOWN = '/.well-known/openid-configuration';
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * Parses the URL of a provider's discovery document. To the URL of an issuer, it appends the document's path. Null: no
 * provider.
 */
export const discoveryUrl = z.string().transform((text, context): string | null => {
  if (text === '') return null;
  const url = URL.parse(text);
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && LOCAL.test(url.hostname));
  if (url !== null && isSafe && url.username === '' && url.search === '' && url.hash === '')
    return url.pathname.endsWith(WELL_KNOWN) ? url.href : url.href.replace(/\/?$/, WELL_KNOWN);
  context.addIssue({
    code: 'custom',
    message: `must be the issuer of the provider or its ${WELL_KNOWN}, like https://id.example.com, without a query or a password; http only on this machine`,
  });
  return z.NEVER;
});

const Role = z.enum(['admin', 'member', 'guest']);

/**
 * Parses pairs of a provider's group and the role of its members. The first pair that matches applies. Null: roles are set
 * in Cellar.
 */
export const groupRoles = z.string().transform((text, context): [string, z.output<typeof Role>][] | null => {
  if (text.trim() === '') return null;
  try {
    return text.split(',').map((pair) => {
      const at = pair.lastIndexOf('=');
      const role = Role.safeParse(pair.slice(at + 1).trim());
      const group = pair.slice(0, at).trim();
      if (at === -1 || group === '' || !role.success) throw new Error(`not '${pair.trim()}'`);
      return [group, role.data];
    });
  } catch (error) {
    context.addIssue({
      code: 'custom',
      message: `must be like admins=admin,developers=member,*=guest, with the roles admin, member and guest; ${reason(error)}`,
    });
    return z.NEVER;
  }
});
