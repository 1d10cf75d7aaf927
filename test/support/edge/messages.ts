// Generates HTTP messages for fuzzing: valid, invalid and damaged.
import fc from 'fast-check';

/** A request that ends its connection. */
const END = 'GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
/** Longer than any body that the generator leaves unfinished. So the server reads at least one of these requests, and closes. */
export const PADDING = END.repeat(250);

export const oneOf = (...texts: string[]) => fc.constantFrom(...texts);
/** Generates `usual` 12 times as often as all of `others` together. */
export const mostly = (usual: string, ...others: string[]) =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: oneOf(...others) });

export const eol = fc.oneof(
  { weight: 200, arbitrary: fc.constant('\r\n') },
  { weight: 1, arbitrary: oneOf('\n', '\r', '\r\r\n', '\n\r\n', ' \r\n', '\r\n ') },
);
export const bodyText = fc.oneof(
  oneOf(
    '',
    'x',
    '0\r\n\r\n',
    'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /smuggled HTTP/1.1\r\nHost: a\r\n',
  ),
  fc.string({ maxLength: 40 }),
);
const chunk = fc
  .tuple(
    bodyText,
    mostly('', ';a', ';a=b', ' ;a', ';a="b\nc"', ' ', '\t;', ';\x00'),
    fc.boolean(),
    mostly('', '0', '00', '0x', '+', '-', ' '),
    eol,
    eol,
  )
  .map(([text, extension, upper, prefix, one, two]) => {
    const size = text.length.toString(16);
    return text === '' ? '' : `${prefix}${upper ? size.toUpperCase() : size}${extension}${one}${text}${two}`;
  });
export const chunks = fc
  .tuple(
    fc.array(chunk, { maxLength: 3 }),
    mostly('0', '00', '000000000000000000', '0;a', '0 ', ''),
    mostly('', 'X-T: 1\r\n', 'bad\r\n', ' X: 1\r\n', 'X : 1\r\n', 'X: 1\n'),
    eol,
    eol,
  )
  .map(([list, last, trailers, one, two]) => `${list.join('')}${last}${one}${trailers}${two}`);

/** A body and the header fields that frame it, correct or not. */
const framed = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ fields: [] as string[], body: '' }) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        bodyText,
        mostly('Content-Length', 'content-length', 'Content-Length ', ' Content-Length', 'Content_Length'),
        mostly('=', '+=', '0=', '0x=', '=, =', '==', '-=', '', '=.0', '= 1', '=\t', '\x0b=', '1', '0', '3'),
      )
      .map(([body, name, value]) => ({
        fields: [`${name}: ${value.replaceAll('=', String(body.length))}`],
        body,
      })),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        chunks,
        mostly(
          'Transfer-Encoding: chunked',
          'transfer-encoding: Chunked',
          'Transfer-Encoding : chunked',
          ' Transfer-Encoding: chunked',
          'Transfer-Encoding:chunked',
          'Transfer-Encoding: \x0bchunked',
          'Transfer-Encoding: chunked, chunked',
          'Transfer-Encoding: gzip, chunked',
          'Transfer-Encoding: identity',
          'Transfer-Encoding: xchunked',
          'Transfer-Encoding: chunked;q=1',
          'Transfer-Encoding: "chunked"',
          'Transfer-Encoding:\r\n chunked',
          'Transfer_Encoding: chunked',
        ),
        mostly(
          '',
          'Content-Length: 3',
          'Content-Length: 0',
          'Transfer-Encoding: chunked',
          'Transfer-Encoding: x',
        ),
        fc.boolean(),
      )
      .map(([body, encoding, other, first]) => ({
        fields: (first ? [other, encoding] : [encoding, other]).filter((field) => field !== ''),
        body,
      })),
  },
);
const field = fc.oneof(
  {
    weight: 6,
    arbitrary: oneOf(
      'X-F: 1',
      'X-F:  two  words\t',
      'x-f:',
      'X-F: \xe9',
      'Connection: keep-alive',
      'Connection: close',
      'Connection: content-length',
      'Connection: transfer-encoding, x-hop',
      'Connection: upgrade, host',
      'Keep-Alive: timeout=1',
      'TE: trailers',
    ),
  },
  {
    weight: 1,
    arbitrary: oneOf(
      'X-F: a\x00b',
      'X-F: a\rb',
      'X-F: a\nb',
      'X-F: a\r\n folded',
      'X F: 1',
      'X-F',
      ': 1',
      'X-F : 1',
      'X-\xe9: 1',
      'X(F): 1',
      'Expect: tea',
      'Host: a',
      'Host: b',
    ),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 12 }).map((text) => `X-F: ${text}`) },
);
const message = fc
  .tuple(
    fc.oneof(
      { weight: 12, arbitrary: oneOf('GET', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'DELETE') },
      { weight: 1, arbitrary: oneOf('get', 'FOO', 'PO ST', '') },
    ),
    mostly(
      '/',
      '/a?b=c',
      '/%41/../x',
      '*',
      'http://a/b',
      'http://b/',
      'HTTP://A?q',
      'a',
      '/a b',
      '/\xe9',
      '/a"<^>`{|}\\?b=`{|}',
      '/#x',
      '//',
      '',
    ),
    mostly('HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.1 ', 'HTTP/01.1', ''),
    mostly(
      'Host: a',
      'host:a',
      'Host: A',
      'Host: a:80',
      'Host: a, b',
      'Host:',
      'Host: a/b',
      'Host: \xe9',
      'X: 1',
    ),
    fc.array(field, { maxLength: 2 }),
    framed,
    fc.array(eol, { minLength: 8, maxLength: 8 }),
    mostly(' ', '  ', '\t'),
  )
  .map(([method, target, version, host, fields, { fields: framing, body }, eols, blank]) => {
    const lines = [`${method}${blank}${target}${blank}${version}`, host, ...fields, ...framing];
    return `${lines.map((line, i) => line + eols[i]).join('')}${eols[7]}${body}`;
  });
/** Changes, inserts or removes one byte; in three of four cases, changes nothing. */
const damage = fc.oneof(
  { weight: 3, arbitrary: fc.constant(null) },
  {
    weight: 1,
    arbitrary: fc.record({
      at: fc.nat(),
      take: fc.constantFrom(0, 1),
      put: fc.oneof(
        oneOf('', '\n', '\r', ' ', ':', '0', '\x00', '\xff'),
        fc.string({ minLength: 1, maxLength: 1 }),
      ),
    }),
  },
);
/** Valid or nearly valid requests, followed by `PADDING`, split into chunks. */
export const stream = fc
  .tuple(fc.array(message, { minLength: 1, maxLength: 3 }), damage, fc.array(fc.nat(), { maxLength: 6 }))
  .map(([messages, harm, cuts]) => {
    let text = messages.join('');
    if (harm !== null) {
      const at = harm.at % text.length;
      text = text.slice(0, at) + harm.put + text.slice(at + harm.take);
    }
    const bytes = Buffer.from(text + PADDING, 'latin1');
    const ends = [...new Set(cuts.map((cut) => cut % text.length)), 0, bytes.length].toSorted(
      (a, b) => a - b,
    );
    return ends.slice(1).map((end, i) => bytes.subarray(ends[i], end));
  });
