// HTTP/1.1 as in RFC 9112, case by case: what an app receives, or which status refuses the bytes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient, serveForAllTests } from '../../support/edge/peers.ts';
import { readAnswers } from '../../support/edge/wire.ts';

/** Answers with the request that it got. */
const APP = `
export default {
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const said = request.method + ' ' + pathname + search + ' ' + (await request.text());
    return new Response(request.method === 'HEAD' ? null : said, { headers: { 'x-said': encodeURIComponent(said) } });
  },
};
`;
/** Sent after every case. It is answered only if the gateway keeps the connection open. */
const LAST = 'GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

const shared = serveForAllTests(APP);

/** Returns what the app received or the status of a refusal, answer by answer. */
async function outcome(bytes: string): Promise<(string | number)[]> {
  using client = new RawClient(shared.gateway.port);
  client.send(bytes + LAST);
  const received = await client.end();
  const answers = readAnswers(received, ({ headers }) => headers.get('x-said')?.startsWith('HEAD') === true);
  return answers.map(({ status, headers, body, whole }) => {
    const said = headers.get('x-said');
    if (said === undefined) {
      assert.match(body, /"code":"[a-z_]+"/);
      assert.equal(headers.get('connection'), 'close');
      assert.match(headers.get('x-request-id')!, /^[0-9a-f]{32}$/);
    }
    assert.ok(whole);
    return said === undefined ? status : decodeURIComponent(said);
  });
}

const get = (fields: string, line = 'GET / HTTP/1.1') => `${line}\r\nHost: a\r\n${fields}\r\n`;
const post = (fields: string, body: string) => `POST / HTTP/1.1\r\nHost: a\r\n${fields}\r\n${body}`;
const chunked = (body: string) => post('Transfer-Encoding: chunked\r\n', body);

/** Accepted cases: name, bytes, and the requests that the app gets. */
const served: [section: string, what: string, bytes: string, asked: string[]][] = [
  ['2.2', 'empty lines before a request', `\r\n\r\n${get('')}`, ['GET / ']],
  ['2.3', 'HTTP/1.0', get('', 'GET / HTTP/1.0'), ['GET / ']],
  ['3.2.1', 'a query', get('', 'GET /a/b?c=d&e HTTP/1.1'), ['GET /a/b?c=d&e ']],
  [
    '3.2.1',
    'characters that clients send raw',
    get('', 'GET /\xc3\xa9"<>^`{|}\\?\xc3\xbc"<>^`{|}\\\' HTTP/1.1'),
    ['GET /%C3%A9%22%3C%3E%5E%60%7B|%7D/?%C3%BC%22%3C%3E^`{|}\\%27 '],
  ],
  ['3.2.1', 'bytes that are not UTF-8', get('', 'GET /\xe9?\xff HTTP/1.1'), ['GET /%E9?%FF ']],
  ['3.2.2', 'a target in absolute form', get('', 'GET http://A/x?y HTTP/1.1'), ['GET /x?y ']],
  ['3.2.2', 'the same with a final dot', get('', 'GET http://a./x HTTP/1.1'), ['GET /x ']],
  ['3.2.2', 'a target in absolute form without a path', get('', 'GET http://a?y HTTP/1.1'), ['GET /?y ']],
  ['3.2.2', 'an absolute target with its default port', get('', 'GET http://a:80/x HTTP/1.1'), ['GET /x ']],
  ['3.2.2', 'the same of https', get('', 'GET https://a:443/x HTTP/1.1'), ['GET /x ']],
  ['3.2.2', 'a Host with the default port', 'GET http://a/x HTTP/1.1\r\nHost: a:80\r\n\r\n', ['GET /x ']],
  ['3.2.4', 'OPTIONS *', get('', 'OPTIONS * HTTP/1.1'), ['OPTIONS / ']],
  [
    '5',
    'fields without a blank, with many, with none behind',
    get('A:1\r\nB:  \t2\t \r\nC:\r\n'),
    ['GET / '],
  ],
  ['5', 'bytes above 127 in a value', get('A: \xe9\r\n'), ['GET / ']],
  ['6.2', 'a length', post('Content-Length: 3\r\n', 'abc'), ['POST / abc']],
  ['6.2', 'a length with zeros before it', post('Content-Length: 0003\r\n', 'abc'), ['POST / abc']],
  ['6.2', 'a length of nothing', post('Content-Length: 0\r\n', ''), ['POST / ']],
  ['6.3', 'no framing means no body', post('', ''), ['POST / ']],
  [
    '6.3',
    'a GET with a body',
    `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET /no HTTP/1.1\r\nHost: a\r\n`,
    ['GET / GET /no HTTP/1.1\r\nHost: a\r\n'],
  ],
  ['7.1', 'chunks', chunked('3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n'), ['POST / abc0123456789']],
  [
    '7.1',
    'chunked in other letters',
    post('Transfer-Encoding: CHUNKED\r\n', '1\r\na\r\n0\r\n\r\n'),
    ['POST / a'],
  ],
  ['7.1', 'a chunk that looks like the last', chunked('5\r\n0\r\n\r\n\r\n0\r\n\r\n'), ['POST / 0\r\n\r\n']],
  ['7.1.1', 'chunk extensions', chunked('1;a\r\nx\r\n1;b="c; \\"d";e\r\ny\r\n0;e=f\r\n\r\n'), ['POST / xy']],
  ['7.1.2', 'trailers', chunked('1\r\nx\r\n0\r\nA: 1\r\nContent-Length: 9\r\n\r\n'), ['POST / x']],
  [
    '9.3.2',
    'requests behind each other',
    `${get('')}${chunked('1\r\nx\r\n0\r\n\r\n')}${post('Content-Length: 1\r\n', 'y')}`,
    ['GET / ', 'POST / x', 'POST / y'],
  ],
  ['9.3.2', 'HEAD among others', `${get('', 'HEAD / HTTP/1.1')}${get('')}`, ['HEAD / ', 'GET / ']],
  [
    '7.6.1 of 9110',
    'Connection cannot list the framing away',
    post('Connection: content-length\r\nContent-Length: 1\r\n', 'x'),
    ['POST / x'],
  ],
  [
    '7.6.1 of 9110',
    'nor that of chunks',
    post('Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n', '1\r\nx\r\n0\r\n\r\n'),
    ['POST / x'],
  ],
  [
    '10.1.1 of 9110',
    '100-continue without waiting for it',
    post('Expect: 100-Continue\r\nContent-Length: 1\r\n', 'x'),
    ['POST / x'],
  ],
];

for (const [section, what, bytes, asked] of served) {
  test(`${section}: ${what}`, async () => {
    const ends = bytes.includes('HTTP/1.0\r\n');
    assert.deepEqual(await outcome(bytes), ends ? asked : [...asked, 'GET /last ']);
  });
}

/** Cases that are refused before anything reaches the app, with their status. */
const refused: [section: string, what: string, bytes: string, status: number][] = [
  ['2.2', 'a bare line feed behind the request line', 'GET / HTTP/1.1\nHost: a\r\n\r\n', 400],
  ['2.2', 'bare line feeds only', 'GET / HTTP/1.1\nHost: a\n\n', 400],
  ['2.2', 'a bare line feed in the fields', get('X: 1\nY: 2\r\n'), 400],
  ['2.2', 'a bare line feed before the empty line', 'GET / HTTP/1.1\r\nHost: a\n\r\n', 400],
  ['2.2', 'a bare carriage return in a value', get('X: 1\rY: 2\r\n'), 400],
  ['2.2', 'two carriage returns', 'GET / HTTP/1.1\r\r\nHost: a\r\n\r\n', 400],
  ['2.2', 'a blank before the first field', 'GET / HTTP/1.1\r\n Host: a\r\n\r\n', 400],
  ['2.2', 'a TLS handshake', '\x16\x03\x01\x02\x00\x01', 400],
  ['2.3', 'HTTP/0.9', 'GET /\r\n\r\n', 400],
  ['2.3', 'another major version', get('', 'GET / HTTP/2.0'), 505],
  ['2.3', 'a minor version that is none', get('', 'GET / HTTP/1.2'), 505],
  ['2.3', 'a version of more digits', get('', 'GET / HTTP/1.10'), 400],
  ['2.3', 'a version in small letters', get('', 'GET / http/1.1'), 400],
  ['3', 'two blanks in the request line', get('', 'GET  / HTTP/1.1'), 400],
  ['3', 'a tab in the request line', get('', 'GET\t/ HTTP/1.1'), 400],
  ['3', 'a blank behind the version', get('', 'GET / HTTP/1.1 '), 400],
  ['3.1', 'a method in small letters', get('', 'get / HTTP/1.1'), 400],
  ['3.1', 'a method nobody knows', get('', 'FETCH / HTTP/1.1'), 400],
  ['3.2', 'no target', get('', 'GET  HTTP/1.1'), 400],
  ['3.2', 'a target that is no path', get('', 'GET a HTTP/1.1'), 400],
  ['3.2', 'a fragment', get('', 'GET /#a HTTP/1.1'), 400],
  ['3.2', 'a control character in the target', get('', 'GET /\x7f HTTP/1.1'), 400],
  ['3.2', 'no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ['3.2', 'no Host in HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n', 400],
  ['3.2', 'two Host fields', get('Host: a\r\n'), 400],
  ['3.2', 'an empty Host', 'GET / HTTP/1.1\r\nHost:\r\n\r\n', 400],
  ['3.2', 'a Host with a port that is too large', 'GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n', 400],
  ['3.2', 'a Host with a path', 'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', 400],
  ['3.2', 'a Host with a user', 'GET / HTTP/1.1\r\nHost: a@b\r\n\r\n', 400],
  ['3.2', 'two hosts in one', 'GET / HTTP/1.1\r\nHost: a, b\r\n\r\n', 400],
  ['3.2.2', 'a target of another host', get('', 'GET http://b/ HTTP/1.1'), 400],
  ['3.2.2', 'a target with another port', get('', 'GET http://a:81/ HTTP/1.1'), 400],
  ['3.2.2', 'a target with the port of another scheme', get('', 'GET http://a:443/ HTTP/1.1'), 400],
  ['3.2.2', 'a target with a user', get('', 'GET http://u@a/ HTTP/1.1'), 400],
  ['3.2.3', 'CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n', 405],
  ['3.2.4', 'GET *', get('', 'GET * HTTP/1.1'), 400],
  ['5', 'a field without a colon', get('X\r\n'), 400],
  ['5', 'a field without a name', get(': 1\r\n'), 400],
  ['5.1', 'a blank before the colon', get('X : 1\r\n'), 400],
  ['5.1', 'a blank in the name of the length', post('Content-Length : 3\r\n', 'abc'), 400],
  ['5.1', 'a byte above 127 in a name', get('X-\xe9: 1\r\n'), 400],
  ['5.2', 'a folded field', get('X: 1\r\n folded\r\n'), 400],
  ['5.2', 'a folded encoding', post('Transfer-Encoding:\r\n chunked\r\n', '0\r\n\r\n'), 400],
  ['5.5 of 9110', 'a NUL in a value', get('X: \0\r\n'), 400],
  ['5.5 of 9110', 'a control character in a value', get('X: \x0b\r\n'), 400],
  ['5.4 of 9110', 'a head that is too large', get(`X: ${'x'.repeat(40_000)}\r\n`), 431],
  ['5.4 of 9110', 'a target that is too large', get('', `GET /${'x'.repeat(40_000)} HTTP/1.1`), 431],
  [
    '6.1',
    'a length and an encoding',
    post('Content-Length: 3\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
    400,
  ],
  [
    '6.1',
    'an encoding and a length',
    post('Transfer-Encoding: chunked\r\nContent-Length: 3\r\n', '0\r\n\r\n'),
    400,
  ],
  ['6.1', 'an unknown encoding', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'), 501],
  ['6.1', 'identity', post('Transfer-Encoding: identity\r\n', ''), 501],
  ['6.1', 'chunked with a parameter', post('Transfer-Encoding: chunked;q=1\r\n', '0\r\n\r\n'), 501],
  ['6.1', 'chunked twice in one', post('Transfer-Encoding: chunked, chunked\r\n', '0\r\n\r\n'), 501],
  [
    '6.1',
    'chunked twice',
    post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
    400,
  ],
  ['6.1', 'a control character before chunked', post('Transfer-Encoding: \x0bchunked\r\n', '0\r\n\r\n'), 400],
  [
    '6.1',
    'chunks in HTTP/1.0',
    'POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['6.2', 'two lengths', post('Content-Length: 3\r\nContent-Length: 4\r\n', 'abc'), 400],
  ['6.2', 'two equal lengths', post('Content-Length: 3\r\nContent-Length: 3\r\n', 'abc'), 400],
  ['6.2', 'a list of lengths', post('Content-Length: 3, 3\r\n', 'abc'), 400],
  ['6.2', 'a length with a sign', post('Content-Length: +3\r\n', 'abc'), 400],
  ['6.2', 'a negative length', post('Content-Length: -3\r\n', 'abc'), 400],
  ['6.2', 'a length in hexadecimal', post('Content-Length: 0x3\r\n', 'abc'), 400],
  ['6.2', 'a length with a fraction', post('Content-Length: 3.0\r\n', 'abc'), 400],
  ['6.2', 'an empty length', post('Content-Length:\r\n', 'abc'), 400],
  ['6.2', 'a length beyond counting', post(`Content-Length: ${'9'.repeat(20)}\r\n`, 'abc'), 400],
  ['7.1', 'a chunk size that is no number', chunked('x\r\n'), 400],
  ['7.1', 'a chunk size with a sign', chunked('+1\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1', 'a chunk size with 0x', chunked('0x1\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1', 'a chunk size beyond counting', chunked(`${'f'.repeat(17)}\r\nx`), 400],
  ['7.1', 'a blank before a chunk size', chunked(' 1\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1', 'a blank behind a chunk size', chunked('1 \r\nx\r\n0\r\n\r\n'), 400],
  ['7.1', 'a chunk without its line end', chunked('1\r\nxy\r\n0\r\n\r\n'), 400],
  ['7.1', 'a bare line feed behind a chunk size', chunked('1\nx\r\n0\r\n\r\n'), 400],
  ['7.1', 'a bare line feed behind a chunk', chunked('1\r\nx\n0\r\n\r\n'), 400],
  ['7.1', 'a bare line feed behind the last chunk', chunked('0\n\r\n'), 400],
  ['7.1.1', 'a line feed in a chunk extension', chunked('1;a\nb\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1.1', 'a blank behind a chunk extension', chunked('1;a \r\nx\r\n0\r\n\r\n'), 400],
  ['7.1.1', 'a chunk extension without a name', chunked('1;\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1.1', 'a chunk extension that quotes without an end', chunked('1;a="b\r\nx\r\n0\r\n\r\n'), 400],
  ['7.1.1', 'an endless chunk extension', chunked(`1;${'a'.repeat(300)}\r\nx\r\n0\r\n\r\n`), 400],
  ['7.1.2', 'a trailer without a colon', chunked('0\r\nX\r\n\r\n'), 400],
  ['7.1.2', 'trailers that are too large', chunked(`0\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`), 400],
  ['10.1.1 of 9110', 'an unknown expectation', post('Expect: tea\r\nContent-Length: 1\r\n', 'x'), 417],
];

for (const [section, what, bytes, status] of refused) {
  test(`${section}: ${what} is refused with ${status}, and nothing after it is read`, async () => {
    assert.deepEqual(await outcome(bytes), [status]);
  });
}

test('every case gives the same result one byte at a time', async () => {
  for (const [, what, bytes, asked] of served) {
    if (bytes.length > 1_000) continue;
    using client = new RawClient(shared.gateway.port);
    client.socket.setNoDelay();
    for (const byte of bytes + LAST) {
      client.send(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const received = await client.end();
    const answers = readAnswers(
      received,
      ({ headers }) => headers.get('x-said')?.startsWith('HEAD') === true,
    );
    const said = answers.map(({ headers }) => decodeURIComponent(headers.get('x-said') ?? 'refused'));
    assert.deepEqual(said.slice(0, asked.length), asked, what);
  }
});
