// Finds the client certificates that a release is bound to.
import { BuildFailure } from '../../../bundler/failure.ts';
import type {
  BoundCertificate,
  SealedCertificate,
} from '../../../handlers/contract/host/client-certificates.ts';
import type { KnownApps } from '../../apps/known/known-apps.ts';
import { reason } from '../../log.ts';
import type { CertificateOf } from './release.ts';

/**
 * Returns a function that finds the client certificates of an app's release.
 * @param ask gets a certificate from the control plane; null: the account has none of that id
 */
export function certificateOf(
  apps: Pick<KnownApps, 'get' | 'originOf'>,
  appId: string,
  ask: (asked: BoundCertificate) => Promise<SealedCertificate | null>,
): CertificateOf {
  return async ({ binding, certificate }) => {
    const owner = apps.get(appId)?.wanted.owner ?? '';
    const where = `mtls_certificates: ${binding}`;
    let found: SealedCertificate | null;
    try {
      found = await ask({ owner, app: apps.originOf(appId), certificate });
    } catch (error) {
      throw new BuildFailure(
        `${where}: the certificate cannot be read now: ${reason(error)}. Deploy again later`,
      );
    }
    if (found === null)
      throw new BuildFailure(
        `${where}: the owner of this app has no certificate ${certificate}: upload it with \`wrangler mtls-certificate upload\`, or correct "certificate_id"`,
      );
    return { binding, certificate, chain: found.certificates, sealedKey: found.sealed_key };
  };
}
