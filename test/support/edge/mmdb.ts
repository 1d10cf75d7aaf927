// Writes databases in MaxMind's format, for tests: https://maxmind.github.io/MaxMind-DB/
const MARKER = '\xab\xcd\xefMaxMind.com';

type Value = string | number | boolean | Value[] | { [name: string]: Value };

/** Returns a database that maps IPv4 networks, such as `203.0.113.0/24`, to values. */
export function mmdb(networks: Record<string, Value>): Buffer {
  type Node = [Node | number | null, Node | number | null];
  const root: Node = [null, null];
  const data: Buffer[] = [];
  let dataLength = 0;
  for (const [network, value] of Object.entries(networks)) {
    const [address, length] = network.split('/') as [string, string];
    const bits = address
      .split('.')
      .flatMap((part) => [...Number(part).toString(2).padStart(8, '0')].map(Number));
    let node = root;
    for (const bit of bits.slice(0, Number(length) - 1)) {
      node[bit] ??= [null, null];
      node = node[bit] as Node;
    }
    // A negative number is a data offset. Nodes are numbered later.
    node[bits[Number(length) - 1]!] = -1 - dataLength;
    const bytes = encoded(value);
    data.push(bytes);
    dataLength += bytes.length;
  }
  const nodes: Node[] = [];
  const number = (node: Node): void => {
    nodes.push(node);
    for (const side of node) if (Array.isArray(side)) number(side);
  };
  number(root);
  const index = new Map(nodes.map((node, n) => [node, n]));
  const tree = Buffer.alloc(nodes.length * 6);
  const record = (side: Node | number | null): number => {
    if (side === null) return nodes.length;
    return typeof side === 'number' ? nodes.length + 16 - 1 - side : index.get(side)!;
  };
  for (const [n, node] of nodes.entries())
    for (const side of [0, 1] as const) tree.writeUIntBE(record(node[side]), n * 6 + side * 3, 3);
  const metadata = encoded({
    node_count: nodes.length,
    record_size: 24,
    ip_version: 4,
    database_type: 'Test',
    languages: ['en'],
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1_700_000_000,
    description: { en: 'test' },
  });
  return Buffer.concat([tree, Buffer.alloc(16), ...data, Buffer.from(MARKER, 'latin1'), metadata]);
}

function encoded(value: Value): Buffer {
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    return Buffer.concat([control(2, bytes.length), bytes]);
  }
  if (typeof value === 'boolean') return control(14, value ? 1 : 0);
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(Number.isInteger(value) ? 4 : 8);
    if (Number.isInteger(value)) bytes.writeUInt32BE(value);
    else bytes.writeDoubleBE(value);
    return Buffer.concat([control(Number.isInteger(value) ? 6 : 3, bytes.length), bytes]);
  }
  if (Array.isArray(value)) return Buffer.concat([control(11, value.length), ...value.map(encoded)]);
  const entries = Object.entries(value);
  return Buffer.concat([control(7, entries.length), ...entries.flatMap((entry) => entry.map(encoded))]);
}

/** Returns the control bytes of a value: its type and size. Types from 8 on take a second byte. */
function control(type: number, size: number): Buffer {
  const first = (type < 8 ? type << 5 : 0) | Math.min(size, 29);
  return Buffer.from([first, ...(type < 8 ? [] : [type - 7]), ...(size < 29 ? [] : [size - 29])]);
}
