/** Letters and digits that people do not confuse with each other. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789';

export default {
  /** Answers requests for paths that are not files in `public/`. */
  async fetch(request, env) {
    const { pathname, origin } = new URL(request.url);
    if (pathname === '/api/links') {
      if (request.method === 'POST') return add(request, env.LINKS, origin);
      const { keys } = await env.LINKS.list({ limit: 100 });
      return Response.json(
        keys.map(({ name, metadata }) => ({ short: `${origin}/${name}`, url: metadata.url })),
      );
    }
    const [, code] = /^\/([a-z0-9-]{1,40})$/.exec(pathname) ?? [];
    const url = code && (await env.LINKS.get(code));
    if (!url) return new Response('There is no such link\n', { status: 404 });
    return Response.redirect(url, 302);
  },
};

/** Stores a link under the name that the visitor chose, or under a random name. */
async function add(request, links, origin) {
  const { url, name = '' } = (await request.json().catch(() => null)) ?? {};
  const target = URL.parse(url);
  if (!['http:', 'https:'].includes(target?.protocol) || target.href.length > 2_000)
    return new Response('Give an address that begins with http:// or https://.\n', { status: 400 });
  const code = name === '' ? random() : name;
  if (typeof code !== 'string' || !/^[a-z0-9-]{1,40}$/.test(code))
    return new Response('A name has up to 40 lower-case letters, digits and hyphens.\n', { status: 400 });
  if ((await links.get(code)) !== null) return new Response(`The name ${code} is taken.\n`, { status: 409 });
  await links.put(code, target.href, { metadata: { url: target.href.slice(0, 200) } });
  return Response.json({ short: `${origin}/${code}`, url: target.href });
}

function random() {
  return [...crypto.getRandomValues(new Uint8Array(6))]
    .map((byte) => LETTERS[byte % LETTERS.length])
    .join('');
}
