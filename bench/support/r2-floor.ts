// The minimum cost of a bucket through the same socket: a process that drops the bytes of a `put`, and
// answers each `get` with bytes from memory. `node bench/support/r2-floor.ts SOCKET` prints `listening` when it serves.
import { createServer, type ServerResponse } from 'node:http';
import { METADATA_SIZE_HEADER, REQUEST_HEADER } from '../../runtime/storage/r2/headers.ts';

const PIECE = Buffer.alloc(256 * 1024, 7);
/** Size of each key's object, in bytes. */
const sizes = new Map<string, number>();

function answer(response: ServerResponse, key: string, body: boolean): void {
  const size = sizes.get(key) ?? 0;
  const range = body ? { range: { offset: 0, length: size } } : {};
  const known = { name: key, version: '1', size, etag: 'e', uploaded: 0, storageClass: 'Standard' };
  const metadata = Buffer.from(
    JSON.stringify({ ...known, ...range, httpFields: {}, customFields: [], checksums: {} }),
  );
  response.writeHead(200, {
    [METADATA_SIZE_HEADER]: metadata.length,
    'content-length': metadata.length + (body ? size : 0),
  });
  response.write(metadata);
  let left = body ? size : 0;
  const send = () => {
    while (left > 0) {
      const piece = PIECE.subarray(0, left);
      left -= piece.length;
      if (!response.write(piece) && left > 0) return void response.once('drain', send);
    }
    response.end();
  };
  send();
}

createServer({ highWaterMark: PIECE.length }, (request, response) => {
  if (request.method === 'GET') {
    const { object } = JSON.parse(String(request.headers[REQUEST_HEADER]));
    request.resume();
    return answer(response, object, true);
  }
  const metadataSize = Number(request.headers[METADATA_SIZE_HEADER]);
  let asked = Buffer.alloc(0);
  request.on('data', (chunk: Buffer) => {
    if (asked.length < metadataSize) asked = Buffer.concat([asked, chunk]).subarray(0, metadataSize);
  });
  request.on('end', () => {
    const { object } = JSON.parse(asked.toString());
    sizes.set(object, Number(request.headers['content-length']) - metadataSize);
    answer(response, object, false);
  });
}).listen(process.argv[2], () => console.log('listening'));
