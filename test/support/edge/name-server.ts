// A small DNS server on loopback, with records that a test sets.
import { createSocket, type Socket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { DOMAIN_LOOKUP_MS } from '../../../handlers/contract/apps/domains.ts';

const TYPES = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 } as const;
const NAME_ERROR = 3;

export type Records = { [Type in keyof typeof TYPES]?: string[] };

export class NameServer {
  readonly #socket: Socket = createSocket('udp4');
  /** By name, in lower case. A missing name gets NXDOMAIN; a name with null gets no answer. */
  readonly names = new Map<string, Records | null>();

  async listen(): Promise<this> {
    this.#socket.on('message', (question, from) => {
      const answer = this.#answer(question);
      if (answer !== null) this.#socket.send(answer, from.port, from.address);
    });
    this.#socket.bind(0, '127.0.0.1');
    await once(this.#socket, 'listening');
    return this;
  }

  /** Its address, in the format of `setServers`. */
  get address(): string {
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  /** Returns a resolver that uses only this server. */
  resolver(timeout = DOMAIN_LOOKUP_MS): Resolver {
    const resolver = new Resolver({ timeout, tries: 1 });
    resolver.setServers([this.address]);
    return resolver;
  }

  close(): void {
    this.#socket.close();
  }

  #answer(question: Buffer): Buffer | null {
    const end = question.indexOf(0, 12);
    const name = readName(question.subarray(12, end));
    const type = question.readUInt16BE(end + 1);
    const records = this.names.get(name);
    if (records === null) return null;
    const found = Object.entries(TYPES)
      .filter(([word, code]) => code === type || (word === 'CNAME' && type !== TYPES.TXT))
      .flatMap(([word, code]) => (records?.[word as keyof Records] ?? []).map((text) => record(code, text)));
    const head = Buffer.alloc(12);
    head.writeUInt16BE(question.readUInt16BE(0), 0);
    head.writeUInt16BE(0x8180 | (records === undefined ? NAME_ERROR : 0), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(found.length, 6);
    return Buffer.concat([head, question.subarray(12, end + 5), ...found]);
  }
}

function readName(bytes: Buffer): string {
  const labels: string[] = [];
  for (let at = 0; at < bytes.length; at += bytes[at]! + 1)
    labels.push(bytes.toString('latin1', at + 1, at + 1 + bytes[at]!));
  return labels.join('.').toLowerCase();
}

/** Encodes a record of the name in the question. */
function record(type: number, text: string): Buffer {
  const data = dataOf(type, text);
  const head = Buffer.alloc(12);
  // A pointer to the name in the question.
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function dataOf(type: number, text: string): Buffer {
  if (type === TYPES.A) return Buffer.from(text.split('.').map(Number));
  if (type === TYPES.AAAA) return Buffer.from(text.replaceAll(':', ''), 'hex');
  const parts = type === TYPES.TXT ? (text.match(/.{1,255}/gs) ?? ['']) : [...text.split('.'), ''];
  return Buffer.concat(parts.map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)])));
}
