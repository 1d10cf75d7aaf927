// Reads and changes an app's repository through the API, without a git client.
import { findAccount } from '../../../sqlite/control/people/accounts.ts';
import { accountOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import { BLOB_BYTES } from '../../contract/apps/source.ts';
import type { HostBlob } from '../../contract/host/host-routes.ts';
import { Problem } from '../../problem.ts';
import { type Part, partOf } from '../../range.ts';
import { fromBase64, toBase64 } from '../base64.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';
import { UNTRUSTED } from '../untrusted.ts';

/** Maximum bytes of a file in one RPC answer. Without a range, the limit is `BLOB_BYTES`. */
const RPC_RANGE_BYTES = 4 * 1024 * 1024;

const IMAGES: Record<string, string> = {
  avif: 'image/avif',
  gif: 'image/gif',
  ico: 'image/x-icon',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
};

const BLOB = 'GET /apps/:id/source/blob/:sha';

const tree: Service<'source.tree'> = async (context, { id, ref, path, recursive, limit, cursor }) => {
  // The cursor has the commit of the first page, so that all pages read the same commit.
  const name = `source.tree ${id}`;
  const [sha = null, from = '0'] = decodeCursor(name, cursor, 2) ?? [];
  const offset = Number(from);
  const query = { ref: sha ?? ref, path, recursive, offset, limit };
  const listed = await context.host.call('GET /apps/:id/source/tree', { id }, { query });
  const next = listed.more ? [listed.sha!, String(offset + limit)] : null;
  return { sha: listed.sha, items: listed.items, next_cursor: encodeCursor(name, next) };
};

const blob: Service<'source.blob'> = async (context, { id, path, ref, range }, transport) => {
  const entry = await context.host.call('GET /apps/:id/source/entry', { id }, { query: { path, ref } });
  const part = partOf(range, entry.size);
  if (transport === 'rest') return blobResponse(context, id, entry, part);
  const { offset, length } = part ?? { offset: 0, length: Math.min(entry.size, BLOB_BYTES) };
  const query = { offset, length: Math.min(length, RPC_RANGE_BYTES) };
  const response = await context.host.bytes(BLOB, { id, sha: entry.sha }, { query });
  const { type: _, ...described } = entry;
  return {
    ...described,
    content_type: contentType(entry, response),
    offset,
    content_base64: toBase64(new Uint8Array(await response.arrayBuffer())),
  };
};

async function blobResponse(
  { host }: Context,
  id: string,
  entry: HostBlob,
  part: Part | null,
): Promise<Response> {
  const { size, sha } = entry;
  if (part === null && size > BLOB_BYTES) {
    const detail = `${entry.path} has ${size} bytes, more than the ${BLOB_BYTES} of one response; read the file in ranges (header Range).`;
    throw new Problem('file_too_large', detail);
  }
  const { offset, length } = part ?? { offset: 0, length: size };
  const response = await host.bytes(BLOB, { id, sha }, { query: { offset, length } });
  return new Response(response.body, {
    status: part === null ? 200 : 206,
    headers: {
      ...UNTRUSTED,
      'content-type': contentType(entry, response),
      'content-length': String(length),
      'accept-ranges': 'bytes',
      etag: `"${sha}"`,
      'x-commit': entry.commit,
      ...(part && { 'content-range': `bytes ${offset}-${offset + length - 1}/${size}` }),
    },
  });
}

function contentType({ path }: HostBlob, response: Response): string {
  if (response.headers.get('x-cellar-binary') !== 'true') return 'text/plain; charset=utf-8';
  return IMAGES[path.slice(path.lastIndexOf('.') + 1).toLowerCase()] ?? 'application/octet-stream';
}

const diff: Service<'source.diff'> = (context, { id, from, to }) =>
  context.host.call('GET /apps/:id/source/diff', { id }, { query: { from, to } });

const commit: Service<'source.commit'> = async (context, input) => {
  const { id, message, author_email, author_name, parent = null } = input;
  const contents: Uint8Array[] = [];
  const files = input.files.map(({ path, content, content_base64, mode = null, from = null, ...file }) => {
    const bytes = contentOf(content, content_base64);
    if (bytes) contents.push(bytes);
    return { path, mode, from, delete: file.delete ?? false, bytes: bytes?.length ?? null };
  });
  const author = { name: author_name ?? author_email.split('@')[0]!, email: author_email };
  const head = JSON.stringify({ message, author, parent, files });
  const body = new Blob([`${head}\n`, ...contents]);
  return context.host.call('POST /apps/:id/source/commit', { id }, { body });
};

const importSource: Service<'source.import'> = async (context, { id, url }) => {
  return context.host.call('POST /apps/:id/source/import', { id }, { body: { url } });
};

const template: Service<'source.template'> = async (context, { id, template }) => {
  const { reads, actor, host } = context;
  const accountId = accountOf(actor);
  const account = accountId === null ? null : await findAccount(reads, accountId);
  const author = { name: account?.name ?? 'Cellar', email: account?.email ?? 'cellar@localhost' };
  return host.call('POST /apps/:id/source/template', { id }, { body: { template, author } });
};

function contentOf(content: string | undefined, base64: string | undefined): Uint8Array | null {
  if (content !== undefined) return new TextEncoder().encode(content);
  return base64 === undefined ? null : fromBase64(base64);
}

export const sourceServices = {
  'source.tree': tree,
  'source.blob': blob,
  'source.diff': diff,
  'source.commit': commit,
  'source.import': importSource,
  'source.template': template,
};
