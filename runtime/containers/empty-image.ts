// An image without files, as a tar archive (POSIX ustar).

const BLOCK = 512;
const CHECKSUM = { at: 148, bytes: 8 };

/** Returns an archive that contains only the directory `tmp`, because some engines refuse an empty archive. */
export function emptyImage(): Buffer {
  const header = Buffer.alloc(BLOCK);
  header.write('tmp/', 0);
  header.write('0000755\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write('00000000000\0', 124);
  header.write('00000000000\0', 136);
  header.fill(' ', CHECKSUM.at, CHECKSUM.at + CHECKSUM.bytes);
  header.write('5', 156);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, CHECKSUM.at);
  return Buffer.concat([header, Buffer.alloc(2 * BLOCK)]);
}
