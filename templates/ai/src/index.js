const SYSTEM = { role: 'system', content: 'You are helpful and brief.' };
/** The largest conversation, in messages and in characters. */
const LIMITS = { messages: 40, characters: 20_000 };

export default {
  /** Answers requests for paths that are not files in `public/`. */
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname !== '/chat' || request.method !== 'POST')
      return new Response('There is nothing here\n', { status: 404 });
    const messages = conversation(await request.json().catch(() => null));
    if (messages === null)
      return new Response('That is not a conversation, or it is too long.\n', { status: 400 });
    try {
      const answer = await env.AI.run(env.MODEL, { messages: [SYSTEM, ...messages], stream: true });
      return new Response(answer, { headers: { 'content-type': 'text/event-stream' } });
    } catch (error) {
      console.error(error);
      return new Response(`${error.message}\n`, { status: 502 });
    }
  },
};

/** Returns the messages of a request; null when they are not what the page sends. */
function conversation(messages) {
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > LIMITS.messages) return null;
  const isRight = ({ role, content } = {}) =>
    (role === 'user' || role === 'assistant') && typeof content === 'string';
  if (!messages.every((each) => each !== null && isRight(each))) return null;
  const characters = messages.reduce((sum, { content }) => sum + content.length, 0);
  return characters > LIMITS.characters ? null : messages.map(({ role, content }) => ({ role, content }));
}
