// Wrangler's calls about client certificates. No call returns a private key.
import * as z from 'zod';
import {
  addCertificate,
  appsWithCertificate,
  type ClientCertificate,
  deleteCertificate,
  listCertificates,
} from '../../../sqlite/control/people/client-certificates.ts';
import { newId, uuidOf } from '../../contract/id.ts';
import { accountCall, type CallContext } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { numberedPage } from './kept.ts';

const CERTIFICATES = '/accounts/:account/mtls_certificates';
const CERTIFICATE = `${CERTIFICATES}/:certificate`;
/** Maximum certificates of one account. */
const CERTIFICATES_MAX = 100;
/** Maximum characters of a certificate chain. */
const CHAIN_LENGTH = 64 * 1024;
/** Maximum characters of a private key. */
const KEY_LENGTH = 16 * 1024;

const New = z.object({
  name: z
    .string()
    .max(255)
    .regex(/^[^\0]*$/, 'must not have a NUL character')
    .default(''),
  certificates: z.string().min(1).max(CHAIN_LENGTH),
  private_key: z.string().max(KEY_LENGTH).default(''),
  ca: z.boolean().default(false),
});

export const mtlsCertificateCalls = [
  accountCall({
    method: 'GET',
    path: CERTIFICATES,
    as: 'secrets.list',
    answer: async (context) => {
      const { searchParams } = context.url;
      const name = searchParams.get('name');
      // `ca=true` asks for CA certificates, which Cellar does not keep.
      const found =
        searchParams.get('ca') === 'true' ? [] : await listCertificates(context.reads, context.account);
      return numberedPage(context, found.filter((each) => name === null || each.name === name).map(shown));
    },
  }),
  accountCall({
    method: 'POST',
    path: CERTIFICATES,
    as: 'secrets.set',
    body: New,
    answer: async ({ db, account, at, host, note }, { name, certificates, private_key, ca }) => {
      note({ name });
      if (ca)
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          'Cellar does not store CA certificates: upload a client certificate, with `wrangler mtls-certificate upload`.',
        );
      const id = uuidOf(newId());
      const body = { id, certificates, private_key };
      const { expires_on, ...read } = await host.call('POST /client-certificates', {}, { body });
      const added = { id, name, ...read, expires_at: expires_on, created_at: at };
      if (await addCertificate(db, account, added, CERTIFICATES_MAX)) return shown(added);
      const message = `An account may have at most ${CERTIFICATES_MAX} client certificates: delete one first.`;
      throw new CloudflareError(409, CODES.BAD_REQUEST, message);
    },
  }),
  accountCall({
    method: 'GET',
    path: CERTIFICATE,
    as: 'secrets.list',
    answer: async (context) => shown(await requireCertificate(context)),
  }),
  accountCall({
    method: 'DELETE',
    path: CERTIFICATE,
    as: 'secrets.delete',
    answer: async (context) => {
      const found = await requireCertificate(context);
      const apps = await appsBoundTo(context, found.id);
      if (apps.length > 0) {
        const message = `The certificate is bound by the apps ${apps.join(', ')}: deploy each of them without the binding first.`;
        throw new CloudflareError(409, CODES.BAD_REQUEST, message.slice(0, 1_000));
      }
      await deleteCertificate(context.db, found.id);
      return shown(found);
    },
  }),
];

async function requireCertificate({ reads, account, words }: CallContext): Promise<ClientCertificate> {
  const found = (await listCertificates(reads, account)).find(({ id }) => id === words.certificate);
  if (found !== undefined) return found;
  const message = `There is no certificate ${words.certificate}: \`wrangler mtls-certificate list\` lists them.`;
  throw new CloudflareError(404, CODES.SECRET_NOT_FOUND, message);
}

/** Returns the slugs of the apps whose live release binds the certificate. */
async function appsBoundTo({ reads, host }: CallContext, certificate: string): Promise<string[]> {
  const slugs: string[] = [];
  for (const { id, slug } of await appsWithCertificate(reads, certificate)) {
    const release = await host.call('GET /apps/:id/release', { id });
    if (release?.mtls_certificates.some((bound) => bound.certificate === certificate)) slugs.push(slug);
  }
  return slugs;
}

function shown(found: ClientCertificate) {
  const { id, name, certificates, issuer, serial_number, key_type, expires_at, created_at } = found;
  const times = { expires_on: expires_at, uploaded_on: created_at, updated_at: created_at };
  return { id, name, certificates, issuer, serial_number, signature: key_type, ca: false, ...times };
}
