// HTTP caching rules for a stored response: freshness, conditional requests and ranges.

/**
 * Lifetime by status, in s, of responses whose headers give none, as on Cloudflare. Responses of other statuses are then not
 * cached.
 */
const DEFAULT_AGES = { 200: 7_200, 301: 7_200, 302: 1_200, 303: 1_200, 404: 180, 410: 180 };

/**
 * Parses the serialized head of a response. Returns the status and the headers, with names in lower case. Leaves out
 * `Transfer-Encoding`: a stored body has a length.
 */
export function readHead(bytes) {
  const [line, ...lines] = new TextDecoder().decode(bytes).trimEnd().split('\r\n');
  const headers = lines.map((each) => {
    const colon = each.indexOf(':');
    return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()];
  });
  return {
    status: Number(line.split(' ')[1]),
    headers: headers.filter(([name]) => name !== 'transfer-encoding'),
  };
}

/**
 * Returns the remaining lifetime of a response, in s; 0 or less: do not cache. Removes `Set-Cookie` from the head if
 * `private=set-cookie` allows caching the response without it.
 */
export function ageOf(head) {
  const value = (name) => head.headers.find(([each]) => each === name)?.[1];
  const directives = new Map(
    (value('cache-control') ?? '').split(',').map((directive) => {
      const [name, ...rest] = directive.trim().toLowerCase().split('=');
      return [name, rest.join('=').replaceAll('"', '')];
    }),
  );
  if (directives.get('private') === 'set-cookie') {
    directives.delete('private');
    head.headers = head.headers.filter(([name]) => name !== 'set-cookie');
  }
  if (value('set-cookie') !== undefined) return 0;
  if (['no-store', 'no-cache', 'private'].some((name) => directives.has(name))) return 0;
  const age = Number(value('age')) || 0;
  for (const name of ['s-maxage', 'max-age'])
    if (/^\d+$/.test(directives.get(name) ?? '')) return Number(directives.get(name)) - age;
  const expires = value('expires');
  if (expires !== undefined) return (Date.parse(expires) - Date.now()) / 1000 || 0;
  return (DEFAULT_AGES[head.status] ?? 0) - age;
}

/** Whether the client's cached copy is current. @param asked the request's headers @param headers the response's */
export function isUnchanged(asked, headers) {
  const etag = headers.get('etag');
  const none = asked.get('if-none-match');
  if (none !== null && etag !== null) {
    const plain = (tag) => tag.trim().replace(/^W\//, '');
    return none.trim() === '*' || none.split(',').some((tag) => plain(tag) === plain(etag));
  }
  const since = Date.parse(asked.get('if-modified-since') ?? '');
  return none === null && Date.parse(headers.get('last-modified') ?? '') <= since;
}

/**
 * Whether a requested range applies to the stored response. `If-Range` names the version of which the client already has a
 * part, by its strong etag or its `Last-Modified`. @param asked the request's headers @param headers the response's
 */
export function isSameVersion(asked, headers) {
  const validator = asked.get('if-range')?.trim();
  if (validator === undefined) return true;
  return validator === headers.get(validator.startsWith('"') ? 'etag' : 'last-modified');
}

/**
 * Returns the requested range as `{start, end}`, with an exclusive end. `unsatisfiable`: the range is outside the content.
 * Null: the response must have the whole content, because there is no range, or a header that is not a single range.
 */
export function rangeOf(header, size) {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '') ?? [];
  if (first === undefined || (first === '' && last === '')) return null;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? { start, end } : 'unsatisfiable';
}
