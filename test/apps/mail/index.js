// Sends e-mails: `/BINDING/fields` those of the object in the body, with bytes for the texts of attachments that begin with
// `bytes:`; `/BINDING/raw` and `/BINDING/stream` raw ones, of `{ from, to, raw }`. Answers what `send()` does.
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
