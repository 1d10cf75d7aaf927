// `/chat?q` answers a question, `/stream?q` streams the answer; `/similar?a&b` returns how similar two texts are.
// `/run/MODEL` runs a model with the request's body as input, and returns its result or error.
const CHAT = '@cf/meta/llama-3.1-8b-instruct';
const EMBEDDINGS = '@cf/baai/bge-base-en-v1.5';

export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    const messages = [
      { role: 'system', content: 'Answer in one sentence.' },
      { role: 'user', content: searchParams.get('q') ?? 'hello' },
    ];
    if (pathname === '/chat') return Response.json(await env.AI.run(CHAT, { messages, max_tokens: 64 }));
    if (pathname === '/stream') {
      const stream = await env.AI.run(CHAT, { messages, stream: true });
      return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
    }
    if (pathname === '/similar') {
      const text = [searchParams.get('a'), searchParams.get('b')];
      const { data, shape } = await env.AI.run(EMBEDDINGS, { text });
      return Response.json({ shape, similarity: cosine(data[0], data[1]) });
    }
    if (pathname.startsWith('/run/')) {
      const model = decodeURIComponent(pathname.slice('/run/'.length));
      try {
        return Response.json({ value: await env.AI.run(model, await request.json()) });
      } catch ({ name, message }) {
        return Response.json({ name, message });
      }
    }
    return new Response('not found', { status: 404 });
  },
};

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, n) => sum + value * y[n], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
