// Which header fields the gateway forwards and which it removes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Backlog } from '../../../runtime/edge/http/body/backlog.ts';
import { readHead } from '../../../runtime/edge/http/head/head.ts';
import { HeadReader } from '../../../runtime/edge/http/head/head-reader.ts';
import { call, RawClient, startGateway, startRawUpstream } from '../../support/edge/peers.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
let upstream: Awaited<ReturnType<typeof startRawUpstream>>;
let plain: Awaited<ReturnType<typeof startGateway>>;
let trusting: Awaited<ReturnType<typeof startGateway>>;
let answer = OK;

before(async () => {
  upstream = await startRawUpstream((_head, socket) => socket.write(answer, 'latin1'));
  const locate = (address: string) => `"country":"DE","at":"${address}"`;
  plain = await startGateway(upstream.socketPath, { locate });
  const trustedProxies = ['127.0.0.0/8', '10.0.0.0/8'];
  trusting = await startGateway(upstream.socketPath, { locate, trustedProxies });
});
after(async () => {
  await plain[Symbol.asyncDispose]();
  await trusting[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** The headers that the process got, by lower-case name; several values of one name are joined with `|`. */
async function forwarded(port: number, headers: string, host = 'shop.example'): Promise<Map<string, string>> {
  using client = new RawClient(port);
  client.send(`GET /path?q=1 HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`);
  await client.expect('\r\n\r\nok');
  const got = new Map<string, string>();
  for (const line of upstream.requests.at(-1)!.split('\r\n').slice(1, -2)) {
    const name = line.slice(0, line.indexOf(':')).toLowerCase();
    const value = line.slice(line.indexOf(':') + 2);
    got.set(name, got.has(name) ? `${got.get(name)}|${value}` : value);
  }
  return got;
}

test('a request reaches the process with its target and Host unchanged', async () => {
  const got = await forwarded(plain.port, 'X-One: 1\r\nx-one: 2\r\n', 'Shop.Example:8787');
  assert.match(upstream.requests.at(-1)!, /^GET \/path\?q=1 HTTP\/1\.1\r\n/);
  assert.equal(got.get('host'), 'Shop.Example:8787');
  assert.equal(got.get('x-one'), '1|2');
});

test('raw characters reach the process percent-encoded, as the URL Standard says', async () => {
  const every = Array.from({ length: 0xff - 0x21 }, (_, i) => String.fromCharCode(0x21 + i)).filter(
    (character) => !'#?\x7f'.includes(character),
  );
  for (const target of every.flatMap((character) => [`/a${character}b`, `/?a${character}b`])) {
    using client = new RawClient(plain.port);
    client.send(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await client.expect('\r\n\r\nok');
    const [, got] = /^GET (\S+) /.exec(upstream.requests.at(-1)!)!;
    // `URL` would turn a backslash into a slash and encode an apostrophe in a query: the gateway keeps both.
    // `URL` also reads bytes above 127 as UTF-8 only, so the test encodes them itself.
    const isSame = /[\\']/.test(target);
    const byte = target.replaceAll(/[\x80-\xff]/g, (high) => `%${high.charCodeAt(0).toString(16)}`);
    const url = new URL(`http://a${byte}`);
    assert.equal(got!.toLowerCase(), isSame ? target : `${url.pathname}${url.search}`.toLowerCase());
  }
});

test('several Cookie fields reach the process as one field', async () => {
  const got = await forwarded(plain.port, 'Cookie: a=1\r\nX-One: 1\r\ncookie: b=2; c=3\r\n');
  assert.equal(got.get('cookie'), 'a=1; b=2; c=3');
  assert.equal(got.get('x-one'), '1');
});

test('a host with a trailing dot equals the host without it', async () => {
  for (const [given, host] of [
    ['shop.example.', 'shop.example'],
    ['Shop.Example.:8787', 'Shop.Example:8787'],
    ['shop.example:', 'shop.example:'],
  ] as const) {
    const got = await forwarded(plain.port, '', given);
    assert.equal(got.get('host'), host);
    assert.equal(got.get('x-forwarded-host'), host);
  }
});

test('a malformed host is refused before routing', async () => {
  const hosts =
    'a:65536 a:99999 a:-1 a:x a:1:2 a.. .a 1.2.3.4.5 a.256.1.1.1 [::1 [::g] [1:2:3] []  [::1]. :80 a%41 a\\b a?b u@a';
  for (const host of hosts.split(' ')) {
    const before = upstream.requests.length;
    using client = new RawClient(plain.port);
    client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    assert.match(await client.end(), /^HTTP\/1\.1 400 /, host);
    assert.equal(upstream.requests.length, before);
  }
});

test('hop-by-hop headers and those listed in Connection are removed', async () => {
  const got = await forwarded(
    plain.port,
    'Connection: keep-alive, X-Secret, te\r\nX-Secret: s\r\nKeep-Alive: timeout=5\r\nProxy-Authorization: p\r\n' +
      'Proxy-Connection: keep-alive\r\nProxy: http://evil\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\nX-Kept: k\r\n',
  );
  for (const name of ['x-secret', 'keep-alive', 'te', 'trailer', 'upgrade', 'proxy', 'proxy-authorization'])
    assert.equal(got.get(name), undefined, name);
  assert.equal(got.get('proxy-connection'), undefined);
  assert.equal(got.get('connection'), undefined);
  assert.equal(got.get('x-kept'), 'k');
});

test('forwarding headers from a client are replaced by known values', async () => {
  const got = await forwarded(
    plain.port,
    'X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: bank.example\r\nX-Forwarded-Prefix: /x\r\n' +
      'Forwarded: for=6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nTrue-Client-IP: 6.6.6.6\r\n' +
      'X-Cellar-Cf: {"country":"XX"}\r\nX-Cellar-Client-Protocol: HTTP/3.0\r\nX-Cellar-Client-Tls: tls1.3 X\r\n',
  );
  assert.equal(got.get('x-forwarded-for'), '127.0.0.1');
  assert.equal(got.get('x-forwarded-proto'), 'http');
  assert.equal(got.get('x-cellar-proto'), 'http');
  assert.equal(
    got.get('x-cellar-cf'),
    '{"httpProtocol":"HTTP/1.1","colo":"CEL","country":"DE","at":"127.0.0.1"}',
  );
  assert.equal(got.get('x-forwarded-host'), 'shop.example');
  assert.equal(got.get('cf-connecting-ip'), '127.0.0.1');
  assert.equal(got.get('x-real-ip'), '127.0.0.1');
  for (const name of ['forwarded', 'true-client-ip', 'x-forwarded-prefix', 'x-cellar-client-tls'])
    assert.equal(got.get(name), undefined, name);
});

/** All headers that Cloudflare documents as its additions to requests, and those that it reserves. */
const OF_CLOUDFLARE =
  `CF-Connecting-IP CF-Connecting-IPv6 CF-Connecting-O2O CF-Pseudo-IPv4 True-Client-IP CF-RAY CF-IPCountry CF-Visitor
  CDN-Loop CF-Worker CF-EW-Via CF-IPCity CF-IPContinent CF-IPLatitude CF-IPLongitude CF-Region CF-Region-Code CF-Metro-Code CF-Postal-Code
  CF-Timezone CF-Access-Jwt-Assertion CF-Access-Authenticated-User-Email CF-Access-Client-Id CF-Access-Client-Secret CF-Access-Token
  CF-Bot-Score CF-Verified-Bot CF-JA3-Hash CF-JA4 CF-Threat-Score CF-Device-Type CF-Cert-Presented CF-Cert-Verified CF-Cert-Revoked
  CF-Cert-Issuer-DN CF-Cert-Subject-DN CF-Cert-Issuer-SKI CF-Cert-Serial CF-Cert-SHA1 CF-Cert-SHA256 CF-Client-Cert-Der-Base64
  CF-Cache-Status CF-Request-ID CF-WARP-Tag-ID CF-Placement CF-AIG-Metadata CF-Biso-Devtools CF-New-One`.split(
    /\s+/,
  );

test('headers of Cloudflare or of Cellar from untrusted clients are removed', async () => {
  const names = [...OF_CLOUDFLARE, ...OF_CLOUDFLARE.map((name) => name.toLowerCase())];
  const internal = ['X-Cellar-Proto', 'X-Cellar-Cf', 'X-Cellar-Calling', 'X-Cellar-Call', 'x-cellar-secret'];
  const claims = [...names, ...internal, 'x-cellar-role', 'X-Cellar-Account', 'X-Cellar-New'].map(
    (name) => `${name}: forged\r\n`,
  );
  const got = await forwarded(plain.port, claims.join(''));
  for (const [name, value] of got) assert.doesNotMatch(value, /forged/, name);
  const written = [...got.keys()].filter((name) => /^(cf-|x-cellar-|cdn-loop|true-)/.test(name));
  const ours = ['cf-connecting-ip', 'cf-ipcountry', 'cf-ray', 'x-cellar-cf', 'x-cellar-proto'];
  assert.deepEqual(written.toSorted(), ours);
  assert.equal(got.get('cf-ipcountry'), 'DE');
  assert.match(got.get('cf-ray')!, /^[0-9a-f]{16}-CEL$/);
});

test('headers of Cloudflare from a trusted proxy are kept, except the client address', async () => {
  const claims = OF_CLOUDFLARE.map((name) => `${name}: said\r\n`);
  const got = await forwarded(trusting.port, `${claims.join('')}CF-Ray: again\r\nX-Cellar-Secret: said\r\n`);
  const written = ['cf-connecting-ip', 'cf-connecting-ipv6', 'true-client-ip'];
  for (const name of OF_CLOUDFLARE.map((each) => each.toLowerCase())) {
    if (!written.includes(name)) assert.equal(got.get(name), name === 'cf-ray' ? 'said|again' : 'said', name);
  }
  assert.equal(got.get('cf-connecting-ip'), '127.0.0.1');
  assert.equal(got.get('x-cellar-secret'), undefined);
});

test('Connection cannot remove the headers that the gateway writes', async () => {
  const got = await forwarded(plain.port, 'Connection: cf-connecting-ip, x-forwarded-for, host\r\n');
  assert.equal(got.get('cf-connecting-ip'), '127.0.0.1');
  assert.equal(got.get('x-forwarded-for'), '127.0.0.1');
  assert.equal(got.get('host'), 'shop.example');
});

test('behind a trusted proxy the client is the last address that the proxy does not vouch for', async () => {
  const got = await forwarded(
    trusting.port,
    'X-Forwarded-For: 6.6.6.6, 203.0.113.9\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\n' +
      'X-Forwarded-Host: bank.example\r\nX-Forwarded-Prefix: /x\r\nCF-Connecting-IP: 6.6.6.6\r\n',
  );
  assert.equal(got.get('x-forwarded-for'), '6.6.6.6, 203.0.113.9, 10.1.1.1, 127.0.0.1');
  assert.equal(got.get('cf-connecting-ip'), '203.0.113.9');
  assert.equal(got.get('x-forwarded-proto'), 'https');
  assert.equal(got.get('x-cellar-proto'), 'https');
  assert.match(got.get('x-cellar-cf')!, /"at":"203\.0\.113\.9"/);
  assert.equal(got.get('x-forwarded-host'), 'bank.example');
  assert.equal(got.get('x-forwarded-prefix'), '/x');
  for (const [port, given, seen] of [
    [trusting.port, 'wss', 'https'],
    [trusting.port, 'HTTPS', 'https'],
    [trusting.port, 'ws', 'http'],
    [plain.port, 'wss', 'http'],
  ] as const) {
    const read = await forwarded(port, `X-Forwarded-Proto: ${given}\r\n`);
    assert.equal(read.get('x-forwarded-proto'), seen, given);
    assert.equal(read.get('x-cellar-proto'), seen, given);
  }
});

test('well-formed request ids and traces are kept with a new span, others are replaced, and the answer has the id', async () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const kept = await call(plain.port, '/', { headers: { 'x-request-id': 'abc-1', traceparent: trace } });
  assert.equal(kept.headers['x-request-id'], 'abc-1');
  assert.match(upstream.requests.at(-1)!, /x-request-id: abc-1\r\n/);
  const [, span] = /traceparent: 00-0af7651916cd43dd8448eb211c80319c-([0-9a-f]{16})-01\r\n/.exec(
    upstream.requests.at(-1)!,
  )!;
  assert.notEqual(span, 'b7ad6b7169203331');

  const made = await call(plain.port, '/', { headers: { 'x-request-id': 'a b<c>', traceparent: '00-zz' } });
  const id = made.headers['x-request-id'] as string;
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.match(upstream.requests.at(-1)!, new RegExp(`x-request-id: ${id}\r\n`));
  assert.match(upstream.requests.at(-1)!, new RegExp(`traceparent: 00-${id}-[0-9a-f]{16}-00\r\n`));
});

test('where spans are exported, the trace flags ask the process to record its own spans', async () => {
  await using exporting = await startGateway(upstream.socketPath, { isSampled: true });
  const ids = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331';
  for (const [given, flags] of [
    ['', '01'],
    [`traceparent: 00-${ids}-00\r\n`, '01'],
    [`traceparent: 00-${ids}-02\r\n`, '03'],
  ] as const) {
    const got = await forwarded(exporting.port, given);
    assert.match(got.get('traceparent')!, new RegExp(`-${flags}$`));
  }
});

test('an answer keeps separate Set-Cookie lines and its own x-request-id, and loses hop-by-hop headers', async () => {
  answer =
    'HTTP/1.1 200 Fine\r\nSet-Cookie: a=1, b\r\nset-cookie: c=2\r\nX-Request-Id: theirs\r\nConnection: x-hop\r\n' +
    'X-Hop: 1\r\nKeep-Alive: timeout=9\r\ncontent-length: 2\r\n\r\nok';
  try {
    const reply = await call(plain.port, '/', { headers: { connection: 'close' } });
    assert.deepEqual(reply.headers['set-cookie'], ['a=1, b', 'c=2']);
    assert.equal(reply.headers['x-request-id'], 'theirs');
    assert.equal(reply.headers['x-hop'], undefined);
    assert.equal(reply.headers['keep-alive'], undefined);
    assert.equal(reply.rawHeaders.filter((name) => name.toLowerCase() === 'x-request-id').length, 1);
  } finally {
    answer = OK;
  }
});

test('an answer to HEAD, a 204 and a 304 have no body, and the connection is reused', async () => {
  using client = new RawClient(plain.port);
  answer = 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n';
  client.send('HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.expect('content-length: 5\r\n');
  answer = 'HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n';
  client.send('GET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.expect('HTTP/1.1 204 No Content\r\n');
  answer = 'HTTP/1.1 304 Not Modified\r\netag: "e"\r\n\r\n';
  client.send('GET /3 HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.expect('etag: "e"\r\n');
  answer = OK;
  client.send('GET /4 HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.expect('\r\n\r\nok');
  const heads = client.received.split('HTTP/1.1 ').slice(1);
  assert.deepEqual(
    heads.map((head) => [head.slice(0, 3), head.slice(head.indexOf('\r\n\r\n') + 4)]),
    [
      ['200', ''],
      ['204', ''],
      ['304', ''],
      ['200', 'ok'],
    ],
  );
  assert.doesNotMatch(heads[1]!, /content-length/i);
});

test('a head may have 256 fields and a kilobyte of connection options', async () => {
  const fields = (count: number) => `GET / HTTP/1.1\r\nHost: a\r\n${'a:\r\n'.repeat(count - 1)}\r\n`;
  const options = (length: number) =>
    `GET / HTTP/1.1\r\nHost: a\r\nConnection: ${'a,'.repeat(length / 2)}\r\n\r\n`;
  for (const [request, status] of [
    [fields(256), 200],
    [fields(257), 431],
    [options(1_024), 200],
    [options(1_026), 400],
  ] as const) {
    using client = new RawClient(plain.port);
    client.send(request);
    await client.expect(`HTTP/1.1 ${status} `);
  }
  const cookies = (count: number) => OK.replace('\r\n', `\r\n${'set-cookie: a=b\r\n'.repeat(count - 1)}`);
  for (const [count, status] of [
    [256, 200],
    [257, 502],
  ] as const) {
    answer = cookies(count);
    assert.equal((await call(plain.port, '/')).status, status);
  }
  answer = OK;
});

test('a head after others on its connection parses as it does alone', () => {
  const lines = [
    'GET /a?b=c HTTP/1.1',
    'POST / HTTP/1.1',
    'GET / HTTP/1.0',
    'GET / HTTP/1.1 ',
    'GET  / HTTP/1.1',
    'GET http://a/x HTTP/1.1',
    'GET http://b/x HTTP/1.1',
    'CONNECT a:1 HTTP/1.1',
    'GET / HTTP/2.1',
    'GET / HTTP/1.1\n',
    '1',
  ];
  const fields = [
    'Host: a\r\n',
    'Host: a\r\nContent-Length: 3\r\n',
    'Host: a\r\nConnection: upgrade\r\nUpgrade: x\r\n',
    'Host: a\r\nTransfer-Encoding: chunked\r\n',
    'Host: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n',
    'Host : a\r\n',
    `Host: a\r\nX-Long: ${'x'.repeat(2_000)}\r\n`,
  ];
  const heads = lines.flatMap((line) => fields.map((each) => `${line}\r\n${each}\r\n`));
  const behind = 'GET / HTTP/1.1\r\n';
  for (const before of heads)
    for (const head of [before, ...heads]) {
      const reader = new HeadReader();
      const waiting = new Backlog();
      for (const text of [before, head]) {
        waiting.put(Buffer.from(text + behind, 'latin1'));
        const { crossing: _, ...alone } = flat(
          readHead(Buffer.from(text, 'latin1'), text.indexOf('\r\n\r\n') + 4),
        );
        const { crossing: __, ...read } = flat(reader.take(waiting, 4_096)!);
        assert.deepEqual(read, alone, JSON.stringify([before, text]));
        assert.equal(waiting.bytes.toString('latin1'), behind);
      }
    }
});

test('a head with the same beginning as the previous one waits for its end', () => {
  const reader = new HeadReader();
  const waiting = new Backlog();
  const head = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  waiting.put(Buffer.from(head));
  assert.ok(reader.take(waiting, 4_096));
  for (let length = 1; length < head.length; length++) {
    waiting.put(Buffer.from(head.slice(0, length)));
    assert.equal(reader.take(waiting, 4_096), null);
  }
  waiting.put(Buffer.from(head));
  assert.ok(reader.take(waiting, 4_096));
});

test('a head above the limit is refused, whether or not its fields are known', () => {
  const reader = new HeadReader();
  const waiting = new Backlog();
  const head = (path: string) => Buffer.from(`GET /${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  const most = head('x'.repeat(100)).length;
  for (const [length, isTaken] of [
    [1, true],
    [100, true],
    [101, false],
  ] as const) {
    waiting.put(head('x'.repeat(length)));
    assert.equal(reader.take(waiting, most) !== null, isTaken, `a path of ${length} bytes`);
  }
});

function flat(read: ReturnType<typeof readHead>) {
  return 'refusal' in read ? { ...read, crossing: null } : { ...read, fields: null, ...read.fields };
}

test('each request of a connection has its own ids or those of its caller', async () => {
  using client = new RawClient(plain.port);
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const given = ['', '', 'X-Request-Id: mine\r\n', '', `traceparent: ${traceparent}\r\n`, ''];
  const seen: { id: string; trace: string; span: string; flags: string }[] = [];
  for (const [i, fields] of [...given, ...given].entries()) {
    client.received = '';
    client.send(`GET /${i} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
    await client.expect('\r\n\r\nok');
    const head = upstream.requests.at(-1)!;
    const id = /\r\nx-request-id: (\S+)\r\n/.exec(head)![1]!;
    const [, trace, span, flags] = /\r\ntraceparent: 00-(\w{32})-(\w{16})-(\w\w)\r\n/.exec(head)!;
    assert.match(head, new RegExp(`\r\ncf-ray: ${span}-CEL\r\n`));
    assert.match(client.received, new RegExp(`\r\nx-request-id: ${id}\r\n`));
    if (fields.startsWith('X-Request-Id')) assert.equal(id, 'mine');
    else assert.match(id, /^[0-9a-f]{32}$/);
    if (fields.startsWith('traceparent')) assert.equal(`00-${trace}-b7ad6b7169203331-${flags}`, traceparent);
    else assert.equal(flags, '00');
    seen.push({ id, trace: trace!, span: span!, flags: flags! });
  }
  assert.equal(new Set(seen.map(({ span }) => span)).size, seen.length);
  assert.equal(
    new Set(seen.map(({ id }) => id)).size,
    seen.length - 1,
    'all but the one that was given twice',
  );
  assert.equal(new Set(seen.map(({ trace }) => trace)).size, seen.length - 1);
});

test('each answer of a connection has the head that the process sent', async () => {
  using client = new RawClient(plain.port);
  const known = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n';
  const named = 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\nX-Request-Id: own\r\n\r\n';
  const asked = [
    ['GET', known, 'ok'],
    ['GET', known, 'no'],
    ['HEAD', known, ''],
    ['GET', known.replace('200', '201'), 'ok'],
    ['GET', named, 'yes'],
    ['GET', named, 'yet'],
    ['GET', known, 'ok'],
  ] as const;
  try {
    for (const [method, head, body] of asked) {
      answer = head + body;
      client.received = '';
      client.send(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`);
      await client.expect(`\r\n\r\n${body}`);
      const [line = '', length = ''] = head.split('\r\n');
      assert.ok(client.received.startsWith(line));
      assert.ok(client.received.includes(`\r\n${length}\r\n`));
      assert.equal(/x-request-id: own/i.test(client.received), head === named);
      assert.ok(client.received.endsWith(`\r\n\r\n${body}`));
    }
  } finally {
    answer = OK;
  }
});
