// Bindings that fetch with a client certificate of the app's owner.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { MtlsBinding } from '../release.ts';

export const CERTIFICATE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const CERTIFICATE_ID_RULE =
  'must be the id of a certificate, as `wrangler mtls-certificate list` shows it';

/**
 * Returns the bindings to client certificates. The host finds the certificates when it makes the release.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for an invalid id, and for bindings without a Worker
 */
export function mtlsBindings(
  file: string,
  { main, mtls_certificates: certificates = [] }: Pick<WranglerConfig, 'main' | 'mtls_certificates'>,
): MtlsBinding[] {
  if (certificates.length > 0 && main === undefined)
    throw new BuildFailure(`${file}: mtls_certificates: the project has no Worker; set "main" to its file`);
  return certificates.map(({ binding, certificate_id: certificate }) => {
    if (!CERTIFICATE_ID.test(certificate))
      throw new BuildFailure(
        `${file}: mtls_certificates: ${binding}: "certificate_id" ${CERTIFICATE_ID_RULE}`,
      );
    return { binding, certificate };
  });
}
