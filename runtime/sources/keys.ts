// Deploy keys: Ed25519 key pairs in the formats of OpenSSH.
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';

const TYPE = 'ssh-ed25519';
const MAGIC = 'openssh-key-v1\0';
/** OpenSSH pads the private part to whole blocks of this many bytes, also without encryption. */
const BLOCK = 8;
const COLUMNS = 70;

export interface DeployKey {
  /** One line, as Git hosts take it. */
  publicKey: string;
  /** A file of OpenSSH, not encrypted. */
  privateKey: string;
}

/** Makes a deploy key. @param comment shown beside the key in lists of keys */
export function makeDeployKey(comment: string): DeployKey {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  const open = Buffer.from(x!, 'base64url');
  const seed = Buffer.from(d!, 'base64url');
  const blob = Buffer.concat([text(TYPE), text(open)]);
  // OpenSSH repeats this number to notice a wrong passphrase.
  const check = randomBytes(4);
  const secret = Buffer.concat([check, check, blob, text(Buffer.concat([seed, open])), text(comment)]);
  const padding = Buffer.from(
    Array.from({ length: (BLOCK - (secret.length % BLOCK)) % BLOCK }, (_, n) => n + 1),
  );
  const file = Buffer.concat([
    Buffer.from(MAGIC, 'latin1'),
    ...['none', 'none', ''].map(text),
    number(1),
    text(blob),
    text(Buffer.concat([secret, padding])),
  ]).toString('base64');
  const lines = file.match(new RegExp(`.{1,${COLUMNS}}`, 'g'))!.join('\n');
  return {
    publicKey: `${TYPE} ${blob.toString('base64')} ${comment}`,
    privateKey: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
  };
}

/** Returns the fingerprints of the keys in lines of SSH's known hosts. */
export function fingerprints(knownHosts: string[]): { type: string; fingerprint: string }[] {
  return knownHosts.map((line) => {
    const [, type = '', key = ''] = line.split(' ');
    const digest = createHash('sha256').update(Buffer.from(key, 'base64')).digest('base64');
    return { type, fingerprint: `SHA256:${digest.replace(/=+$/, '')}` };
  });
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Returns a string in SSH's wire format: its length, then its bytes. */
function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([number(bytes.length), bytes]);
}
