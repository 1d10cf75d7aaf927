// Reads an uploaded client certificate. Runs in a worker thread.
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import type { NewCertificate, ReadCertificate } from '../../handlers/contract/host/client-certificates.ts';
import { Refusal } from '../refusal.ts';

/** Maximum number of certificates in a chain. */
const CHAIN = 10;
/** Sizes of RSA keys, in bits: workerd refuses others. */
const RSA_BITS = { least: 2_048, most: 8_192 };
const CURVES = ['prime256v1', 'secp384r1'];
const BLOCKS = /-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----/g;
/** The version field of a certificate of version 3, in DER. */
const VERSION_3 = Buffer.from('a003020102', 'hex');

/** The certificate, and its key as PKCS #8 in PEM. */
type Found = Omit<ReadCertificate, 'sealed_key'> & { key: string };

/** Checks a certificate and its key. @throws {Refusal} 400, saying why they cannot be used */
export function readCertificate({ certificates, private_key }: NewCertificate): Found {
  const blocks = [...certificates.matchAll(BLOCKS)];
  if (blocks.length === 0) throw refusal('certificates', 'has no certificate in PEM');
  if (blocks.length > CHAIN) throw refusal('certificates', `may have at most ${CHAIN} certificates`);
  const chain = blocks.map(([pem, type], index) => {
    if (type !== 'CERTIFICATE') throw refusal('certificates', `has a ${type}; give certificates only`);
    return parsed(pem, index + 1);
  });
  const [leaf] = chain as [X509Certificate];
  const expires = new Date(leaf.validTo);
  if (Number.isNaN(expires.getTime())) throw refusal('certificates', 'have no readable time of expiry');
  if (expires.getTime() <= Date.now())
    throw refusal('certificates', `expired on ${expires.toISOString().slice(0, 10)}`);
  const key = parsedKey(private_key);
  if (!leaf.checkPrivateKey(key)) throw refusal('private_key', 'is not the key of the first certificate');
  return {
    certificates: chain.map((each) => each.toString()).join(''),
    key: key.export({ type: 'pkcs8', format: 'pem' }) as string,
    issuer: leaf.issuer.replaceAll('\n', ','),
    serial_number: BigInt(`0x${leaf.serialNumber}`).toString(),
    key_type: key.asymmetricKeyType!,
    expires_on: expires.toISOString(),
  };
}

function parsed(pem: string, number: number): X509Certificate {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(pem);
  } catch {
    throw refusal('certificates', `number ${number} cannot be read`);
  }
  // The version field lies in two nested sequences.
  const inner = contentOf(contentOf(certificate.raw));
  if (!inner.subarray(0, VERSION_3.length).equals(VERSION_3))
    throw refusal('certificates', `number ${number} is not of version 3 of X.509: make it with extensions`);
  return certificate;
}

/** Returns the content of a value in DER, and what follows it. */
function contentOf(value: Buffer): Buffer {
  const length = value[1] ?? 0;
  return value.subarray(2 + (length < 0x80 ? 0 : length - 0x80));
}

function parsedKey(pem: string): KeyObject {
  if (pem.includes('ENCRYPTED'))
    throw refusal('private_key', 'is encrypted: give it without a passphrase; it is stored encrypted');
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    throw refusal('private_key', 'is not a private key in PEM');
  }
  const { modulusLength = 0, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  const isUsable =
    key.asymmetricKeyType === 'ed25519' ||
    (key.asymmetricKeyType === 'rsa' && modulusLength >= RSA_BITS.least && modulusLength <= RSA_BITS.most) ||
    (key.asymmetricKeyType === 'ec' && CURVES.includes(namedCurve));
  if (!isUsable)
    throw refusal(
      'private_key',
      `must be RSA of ${RSA_BITS.least} to ${RSA_BITS.most} bits, ECDSA with P-256 or P-384, or Ed25519`,
    );
  return key;
}

function refusal(field: string, words: string): Refusal {
  return new Refusal(400, 'invalid_input', `"${field}" ${words}`);
}
