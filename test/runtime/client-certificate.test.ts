// Uploaded client certificates, and their keys on the way to an app's process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync, type KeyObject, randomUUID, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { readCertificate } from '../../runtime/apps/client-certificate.ts';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { certificateOf } from '../../runtime/builds/release/client-certificates.ts';
import { startProgram, textPath } from '../../runtime/processes/shell-program.ts';

const read = (name: string) => readFileSync(join('test/support/mtls', name), 'utf8');
const given = { id: 'id', certificates: read('client.pem'), private_key: read('client-key.pem') };

test('a certificate is read with its chain, and its key in one format', () => {
  const { key, ...found } = readCertificate({ ...given, certificates: `a comment\n${given.certificates}` });
  assert.deepEqual(found, {
    certificates: given.certificates,
    issuer: 'CN=Intermediate authority',
    serial_number: '4711',
    key_type: 'rsa',
    expires_on: '2126-11-04T21:12:11.000Z',
  });
  assert.match(key, /^-----BEGIN PRIVATE KEY-----\n/);
});

test('what workerd could not use is refused, with the field and the fix', (t) => {
  const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' });
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey;
  const odd = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey;
  const locked = odd.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' });
  const { raw } = new X509Certificate(given.certificates);
  // Makes the month of the expiry invalid.
  raw.write('99', raw.indexOf('21261104') + 4);
  const timeless = `-----BEGIN CERTIFICATE-----\n${raw.toString('base64')}\n-----END CERTIFICATE-----\n`;
  for (const [wrong, message] of [
    [{ certificates: timeless }, /have no readable time of expiry/],
    [{ certificates: '' }, /^"certificates" has no certificate/],
    [{ certificates: given.certificates.repeat(6) }, /may have at most 10/],
    [{ certificates: given.certificates + given.private_key }, /has a PRIVATE KEY/],
    [{ certificates: given.certificates.replace('MII', 'MIA') }, /number 1 cannot be read/],
    [{ certificates: read('version-1.pem') }, /number 1 is not of version 3/],
    [{ private_key: '' }, /^"private_key" is not a private key/],
    [{ private_key: String(locked) }, /is encrypted: give it without a passphrase/],
    [{ private_key: String(pem(small)) }, /must be RSA of 2048 to 8192 bits/],
    [{ private_key: String(pem(odd)) }, /must be RSA/],
    [{ private_key: read('server.pem') }, /is not the key of the first certificate/],
  ] as const)
    assert.throws(() => readCertificate({ ...given, ...wrong }), { code: 'invalid_input', message });
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2127) });
  assert.throws(() => readCertificate(given), /expired on 2126-11-04/);
});

test('an encrypted key is only for its certificate', () => {
  const secrets = new Secrets({} as never, Buffer.alloc(32, 7).toString('base64url'));
  const sealedKey = secrets.sealKey('one', 'the key');
  assert.equal(secrets.openKey({ certificate: 'one', sealedKey }), 'the key');
  assert.throws(() => secrets.openKey({ certificate: 'two', sealedKey }), /cannot be decrypted/);
});

test('a release asks for the certificates of its owner, in the name of its app', async () => {
  const apps = { get: () => ({ wanted: { owner: 'ada' } }) as never, originOf: () => 'parent' };
  const named = { binding: 'CERT', certificate: 'id' };
  const found = certificateOf(apps, 'preview', async (asked) => {
    assert.deepEqual(asked, { owner: 'ada', app: 'parent', certificate: 'id' });
    return { certificates: 'pem', sealed_key: 'sealed' };
  });
  assert.deepEqual(await found(named), { ...named, chain: 'pem', sealedKey: 'sealed' });
  await assert.rejects(
    certificateOf(apps, 'a', async () => null)(named),
    /^BuildFailure: mtls_certificates: CERT: .*no certificate id/,
  );
  const away = certificateOf(apps, 'a', () => Promise.reject(new Error('away')));
  await assert.rejects(away(named), /CERT: the certificate cannot be read now: away\. Deploy again later/);
});

test('a program reads its texts as files that no directory has', async () => {
  const texts = [`one ${randomUUID()}\n`, `it's "two" $HOME\n`];
  const words = ['/bin/cat', ...texts.map((_, index) => textPath(index))];
  const program = { words, cwd: '/', environment: {}, texts, dataLimitBytes: 64 * 2 ** 20 };
  const child = await startProgram(program, () => {});
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  assert.equal(output, texts.join(''), errors);
  const { stdout } = spawnSync('grep', ['-rls', '-F', texts[0]!.trim(), '/dev/shm'], { encoding: 'utf8' });
  assert.equal(stdout, '');
});
