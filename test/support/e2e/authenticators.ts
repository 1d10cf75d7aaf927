// Second factors of people: a TOTP generator and a WebAuthn security key.
import { createHash, createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Returns the current code of a TOTP key (RFC 6238: SHA-1, six digits, 30 s). @param uri `otpauth://totp/…` */
export function totp(uri: string, at = Date.now()): string {
  const bits = [...new URL(uri).searchParams.get('secret')!]
    .map((digit) => BASE32.indexOf(digit).toString(2).padStart(5, '0'))
    .join('');
  const key = Buffer.from(bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const mac = createHmac('sha1', key).update(counter).digest();
  const offset = mac.at(-1)! & 0xf;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

/** A WebAuthn security key with one credential. It always reports user presence. */
export class SecurityKey {
  readonly #id = randomBytes(16);
  readonly #keys: { publicKey: KeyObject; privateKey: KeyObject } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
  });
  #used = 0;

  /** Returns the result of `navigator.credentials.create` in a browser at `origin`. */
  create(options: { challenge: string; rp: { id: string } }, origin: string): object {
    const authData = this.#authenticatorData(options.rp.id, true);
    // {"fmt": "none", "attStmt": {}, "authData": …}
    const attestation = Buffer.concat([
      Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746158', 'hex'),
      Buffer.from([authData.length]),
      authData,
    ]);
    return this.#credential({
      clientDataJSON: clientData('webauthn.create', options.challenge, origin),
      attestationObject: attestation.toString('base64url'),
      transports: ['usb'],
    });
  }

  /** Returns the result of `navigator.credentials.get`. */
  get(options: { challenge: string; rpId: string }, origin: string): object {
    const clientDataJSON = clientData('webauthn.get', options.challenge, origin);
    const authData = this.#authenticatorData(options.rpId, false);
    const hash = createHash('sha256').update(Buffer.from(clientDataJSON, 'base64url')).digest();
    const signature = sign('sha256', Buffer.concat([authData, hash]), this.#keys.privateKey);
    return this.#credential({
      clientDataJSON,
      authenticatorData: authData.toString('base64url'),
      signature: signature.toString('base64url'),
    });
  }

  #credential(response: object): object {
    const id = this.#id.toString('base64url');
    return { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response };
  }

  #authenticatorData(rpId: string, withKey: boolean): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(++this.#used);
    const head = [createHash('sha256').update(rpId).digest(), Buffer.from([withKey ? 0x45 : 0x05]), counter];
    if (!withKey) return Buffer.concat(head);
    const { x, y } = this.#keys.publicKey.export({ format: 'jwk' });
    return Buffer.concat([
      ...head,
      Buffer.alloc(16),
      Buffer.from([0, this.#id.length]),
      this.#id,
      // {1: EC2, 3: ES256, -1: P-256, -2: x, -3: y}
      Buffer.from('a5010203262001215820', 'hex'),
      Buffer.from(x!, 'base64url'),
      Buffer.from('225820', 'hex'),
      Buffer.from(y!, 'base64url'),
    ]);
  }
}

function clientData(type: string, challenge: string, origin: string): string {
  return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false })).toString('base64url');
}
