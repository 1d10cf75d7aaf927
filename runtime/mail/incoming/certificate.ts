// Makes a certificate for STARTTLS where the operator has set none. Other mail servers encrypt with it, and most of them do
// not check it.
import 'reflect-metadata';
import { X509CertificateGenerator } from '@peculiar/x509';
import type { Tls } from './messages.ts';

const YEARS = 10;

/** Returns a self-signed certificate that is valid for ten years, with its key. @param name the host name in it */
export async function ownCertificate(name: string): Promise<Tls> {
  const signing = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(signing, true, ['sign', 'verify']);
  const notAfter = new Date();
  notAfter.setFullYear(notAfter.getFullYear() + YEARS);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${name.slice(0, 64)}`,
    notBefore: new Date(),
    notAfter,
    signingAlgorithm: signing,
    keys,
  });
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return {
    cert: certificate.toString('pem'),
    key: `-----BEGIN PRIVATE KEY-----\n${key.replace(/.{64}/g, '$&\n')}\n-----END PRIVATE KEY-----\n`,
  };
}
