const CHOICES = 'SELECT id, text, votes FROM choices ORDER BY id';

export default {
  /** Answers `/api/…`; the built page answers everything else. */
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const [, id] = /^\/api\/choices\/(\d{1,15})\/votes$/.exec(pathname) ?? [];
    if (pathname === '/api/choices') return Response.json((await env.DB.prepare(CHOICES).all()).results);
    if (id === undefined || request.method !== 'POST')
      return Response.json({ error: 'not found' }, { status: 404 });
    const [, all] = await env.DB.batch([
      env.DB.prepare('UPDATE choices SET votes = votes + 1 WHERE id = ?').bind(id),
      env.DB.prepare(CHOICES),
    ]);
    return Response.json(all.results);
  },
};
