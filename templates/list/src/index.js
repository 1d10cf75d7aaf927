export { Viewers } from './viewers.js';

const ITEMS = 500;

export default {
  /** Answers requests for paths that are not files in `public/`. */
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const viewers = env.VIEWERS.getByName('list');
    if (pathname === '/live') return viewers.fetch(request);
    const [, id] = /^\/items(?:\/(\d{1,15}))?$/.exec(pathname) ?? [null, null];
    if (id === null) return new Response('There is nothing here\n', { status: 404 });
    if (request.method === 'GET' && id === undefined) {
      const { results } = await env.DB.prepare('SELECT id, text, done FROM items ORDER BY id').all();
      return Response.json(results);
    }
    const problem = await change(request, id, env.DB);
    if (problem !== null) return new Response(`${problem}\n`, { status: 400 });
    await viewers.changed();
    return new Response(null, { status: 204 });
  },
};

/** Adds, ticks or removes an item. Returns why the request is refused; null when it is not. */
async function change(request, id, db) {
  if (request.method === 'POST' && id === undefined) {
    const text = (await request.text()).trim();
    if (text === '' || text.length > 200) return 'An item has 1 to 200 characters.';
    const { meta } = await db
      .prepare('INSERT INTO items (text) SELECT ?1 WHERE (SELECT count(*) FROM items) < ?2')
      .bind(text, ITEMS)
      .run();
    return meta.changes === 0 ? `The list is full: it has ${ITEMS} items.` : null;
  }
  if (id === undefined) return 'Name an item.';
  if (request.method === 'PUT')
    await db.prepare('UPDATE items SET done = 1 - done WHERE id = ?').bind(id).run();
  else if (request.method === 'DELETE') await db.prepare('DELETE FROM items WHERE id = ?').bind(id).run();
  else return 'Use POST, PUT or DELETE.';
  return null;
}
