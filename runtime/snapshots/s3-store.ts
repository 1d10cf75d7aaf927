// Snapshots in any store that speaks S3.
import { hash } from 'node:crypto';
import { AwsClient } from 'aws4fetch';
import { MissingObject, type Store, type Stored } from './store.ts';

/** Where the store is, and whose. */
export interface S3Place {
  endpoint: string;
  region: string;
  bucket: string;
  /** Before every name; empty, or ending with `/`. */
  prefix: string;
  accessKey: string;
  secretKey: string;
}

/** Longest time for one object, which has 16 MiB and a little, in ms. */
const DEADLINE_MS = 5 * 60_000;
/** Times that a request is made again which the store was too busy for, or failed at; each waits longer. */
const RETRIES = 5;
/** Characters of a refusal that are told. */
const REFUSAL_LENGTH = 300;

export class S3Store implements Store {
  readonly #client: AwsClient;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor({ endpoint, region, bucket, prefix, accessKey, secretKey }: S3Place) {
    this.#client = new AwsClient({
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      service: 's3',
      region,
      retries: RETRIES,
    });
    this.#bucket = `${endpoint.replace(/\/$/, '')}/${bucket}`;
    this.#prefix = prefix;
  }

  async list(folder: string): Promise<Stored[]> {
    const found: Stored[] = [];
    const prefix = this.#prefix + folder;
    for (let token: string | null = ''; token !== null; ) {
      const query = new URLSearchParams({ 'list-type': '2', prefix });
      if (token !== '') query.set('continuation-token', token);
      const answer = await this.#ask('GET', `?${query}`);
      const xml = await answer.text();
      for (const [, entry] of xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const name = element(entry!, 'Key').slice(this.#prefix.length);
        const writtenAt = Date.parse(element(entry!, 'LastModified'));
        found.push({ name, bytes: Number(element(entry!, 'Size')), writtenAt });
      }
      token = element(xml, 'NextContinuationToken') || null;
    }
    return found;
  }

  async read(name: string, part?: { offset: number; length: number }): Promise<Buffer> {
    const range = part && `bytes=${part.offset}-${part.offset + part.length - 1}`;
    const answer = await this.#ask('GET', this.#path(name), { headers: range ? { range } : {} });
    return Buffer.from(await answer.arrayBuffer());
  }

  async write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void> {
    await this.#ask('PUT', this.#path(name), { body: bytes });
  }

  async remove(name: string): Promise<void> {
    await this.#ask('DELETE', this.#path(name));
  }

  #path(name: string): string {
    return `/${this.#prefix}${name}`;
  }

  /** @throws {MissingObject}; {Error} when the store refuses or does not answer */
  async #ask(
    method: string,
    path: string,
    { headers = {}, body }: { headers?: Record<string, string>; body?: Buffer<ArrayBuffer> } = {},
  ): Promise<Response> {
    // The store itself checks what arrives.
    const sum = hash('sha256', body ?? '');
    const answer = await this.#client.fetch(this.#bucket + path, {
      method,
      headers: { ...headers, 'x-amz-content-sha256': sum },
      body: body ?? null,
      redirect: 'error',
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    if (answer.ok) return answer;
    const text = await answer.text();
    if (answer.status === 404 && element(text, 'Code') !== 'NoSuchBucket') throw new MissingObject(path);
    const why = `${element(text, 'Code')} ${element(text, 'Message')}`.trim() || text;
    throw new Error(
      `the store of snapshots answered ${method} ${path.split('?')[0]} with ${answer.status}: ${why.slice(0, REFUSAL_LENGTH)}`,
    );
  }
}

/** The text of an XML element that has no other in it; empty when there is none. */
function element(xml: string, name: string): string {
  const [, text = ''] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? [];
  const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return text.replace(/&(\w+);/g, (entity, word: string) => entities[word] ?? entity);
}
