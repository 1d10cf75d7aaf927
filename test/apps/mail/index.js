// Sends e-mails and returns the result of `send()`. `/BINDING/fields` takes the fields; attachment texts that begin with
// `bytes:` are sent as bytes. `/BINDING/raw` and `/BINDING/stream` take `{ from, to, raw }`.
import { EmailMessage } from 'cloudflare:email';

const made = {
  raw: ({ from, to, raw }) => new EmailMessage(from, to, raw),
  stream: ({ from, to, raw }) => new EmailMessage(from, to, new Response(raw).body),
  fields: ({ attachments, ...message }) => ({
    ...message,
    attachments: attachments?.map(({ content, ...attachment }) => ({
      ...attachment,
      content: content.startsWith('bytes:') ? new TextEncoder().encode(content.slice(6)) : content,
    })),
  }),
};

export default {
  async fetch(request, env) {
    const [, binding, way] = new URL(request.url).pathname.split('/');
    try {
      return Response.json(await env[binding].send(made[way](await request.json())));
    } catch ({ code, message }) {
      return Response.json({ code, message });
    }
  },
};
