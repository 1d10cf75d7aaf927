// Bindings that fetch with a client certificate. workerd itself presents the certificate; the app cannot read its key.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Release } from '../../../../bundler/release.ts';
import { textPath } from '../../../processes/shell-program.ts';
import { type CapnpValue, embed } from '../capnp.ts';
import { networkService } from '../network.ts';

interface MtlsOptions {
  /** The config's directory. */
  directory: string;
  /** Private addresses and CIDR ranges that the app may reach. */
  egress: readonly string[];
  /** Path of a PEM file with the operator's own certificate authorities; null: none. */
  authorities: string | null;
  /** Whether this is a trial. A trial gets no keys, so its requests are sent without the certificates. */
  isTrial: boolean;
}

/** An encrypted private key of a release. */
export interface SealedKey {
  /** The id of its certificate. */
  certificate: string;
  /** In base64. */
  sealedKey: string;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Returns the keys that a process of the release needs. The process gets the decrypted keys in this order (`Program.texts`).
 */
export function sealedKeys({ mtlsCertificates = [] }: Release): SealedKey[] {
  return mtlsCertificates.flatMap(({ certificate, sealedKey }) =>
    sealedKey === null ? [] : [{ certificate, sealedKey }],
  );
}

export function mtlsBindings({ mtlsCertificates = [] }: Release): CapnpValue[] {
  return mtlsCertificates.map(({ binding }, index) => ({ name: binding, service: serviceOf(index) }));
}

/** Returns the services behind the bindings. They reach the same addresses as the app's own `fetch()`. */
export function mtlsServices(
  release: Release,
  { directory, egress, authorities, isTrial }: MtlsOptions,
): CapnpValue[] {
  const keys = isTrial ? [] : sealedKeys(release);
  return (release.mtlsCertificates ?? []).map(({ certificate, chain }, index) => {
    const key = keys.findIndex((each) => each.certificate === certificate);
    const trusted = operatorsAuthorities(authorities);
    return networkService(serviceOf(index), egress, {
      ...(key !== -1 && {
        keypair: { privateKey: embed(relative(directory, textPath(key))), certificateChain: chain },
      }),
      ...(trusted.length > 0 && { trustedCertificates: trusted }),
    });
  });
}

function serviceOf(index: number): string {
  return `mtls ${index}`;
}

/** Returns the operator's own certificate authorities: servers that ask for a client certificate are often private. */
function operatorsAuthorities(path: string | null): string[] {
  if (path === null) return [];
  try {
    return (readFileSync(path, 'utf8').match(CERTIFICATES) ?? []).filter(isReadable);
  } catch {
    // The file cannot be read. Node has warned about this at its start.
    return [];
  }
}

/** Whether `pem` is a certificate of an authority that can be parsed. workerd does not start with any other text. */
function isReadable(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}
