import { Hono } from 'hono';
import { html } from 'hono/html';

interface Entry {
  id: number;
  name: string;
  message: string;
  created_at: string;
}

type Env = { Bindings: { DB: D1Database; TITLE: string } };

const app = new Hono<Env>();

app.get('/', async (c) => {
  const entries = await latest(c.env.DB);
  return c.html(html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${c.env.TITLE}</title>
      </head>
      <body>
        <h1>${c.env.TITLE}</h1>
        <form method="post" action="/entries">
          <input name="name" placeholder="Your name" required />
          <input name="message" placeholder="Say something" required />
          <button>Sign</button>
        </form>
        <ul>
          ${entries.map((entry) => html`<li><b>${entry.name}</b>: ${entry.message}</li>`)}
        </ul>
      </body>
    </html>`);
});

app.get('/entries', async (c) => c.json(await latest(c.env.DB)));

app.post('/entries', async (c) => {
  const isJson = c.req.header('content-type')?.startsWith('application/json');
  const { name, message } = isJson ? await c.req.json() : await c.req.parseBody();
  if (typeof name !== 'string' || typeof message !== 'string')
    return c.json({ error: 'name and message' }, 400);
  const entry = await c.env.DB.prepare(
    'INSERT INTO entries (name, message, created_at) VALUES (?, ?, ?) RETURNING *',
  )
    .bind(name, message, new Date().toISOString())
    .first<Entry>();
  return isJson ? c.json(entry, 201) : c.redirect('/', 303);
});

async function latest(db: D1Database): Promise<Entry[]> {
  const { results } = await db.prepare('SELECT * FROM entries ORDER BY id DESC LIMIT 50').all<Entry>();
  return results;
}

export default app;
