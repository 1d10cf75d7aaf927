import { page } from './page.js';

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname !== '/') return new Response('There is nothing here\n', { status: 404 });
    if (request.method === 'POST') return sign(request, env.DB);
    const { results } = await env.DB.prepare('SELECT * FROM entries ORDER BY id DESC LIMIT 50').all();
    return new Response(page(results), { headers: { 'content-type': 'text/html; charset=utf-8' } });
  },
};

/** Adds an entry, and sends the visitor back to the page. */
async function sign(request, db) {
  const form = await request.formData();
  const [name, message] = ['name', 'message'].map((field) => String(form.get(field) ?? '').trim());
  if (name === '' || message === '') return new Response('A name and a message, please\n', { status: 400 });
  await db
    .prepare('INSERT INTO entries (name, message, created_at) VALUES (?, ?, ?)')
    .bind(name.slice(0, 100), message.slice(0, 1000), new Date().toISOString())
    .run();
  return new Response(null, { status: 303, headers: { location: '/' } });
}
