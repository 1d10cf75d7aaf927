import { EmailMessage } from 'cloudflare:email';

const received = [];
const failure = ({ code, message }) => ({ code, message });

/** What is done with an e-mail, by the part of its address before the `@`. */
const actions = {
  no: (message) => message.setReject('we are closed\r\n250 ok'),
  broken() {
    throw new Error('this app is broken');
  },
  forward: (message) => message.forward('bob@example.net', new Headers({ 'X-Via': 'mail-in' })),
  evil: (message) => message.forward('bob@example.net', new Headers({ Bcc: 'eve@example.net' })),
  fields: (message) =>
    message.reply({ from: `Shop <${message.to}>`, subject: 'Re: hello', text: 'We are on it.' }),
  raw: (message) => message.reply(rawReply(message, message.headers.get('message-id'))),
  unthreaded: (message) => message.reply(rawReply(message, '<other@example.com>')),
  stranger: (message) =>
    message.reply(new EmailMessage(message.to, 'eve@example.net', rawReply(message)[RAW])),
  unread: () => ({}),
};
const RAW = Symbol.for('EmailMessage::raw');

function rawReply({ to, from }, id) {
  const text = `From: ${to}\r\nTo: ${from}\r\nSubject: Re\r\nIn-Reply-To: ${id}\r\n\r\nThanks.\r\n`;
  return new EmailMessage(to, from, text);
}

export default {
  fetch: () => Response.json(received),
  async email(message, env, ctx) {
    const { from, to, rawSize, headers } = message;
    const mail = {
      from,
      to,
      rawSize,
      headers: [...headers],
      hasEnv: typeof env,
      canWait: typeof ctx.waitUntil,
    };
    const act = actions[to.split('@')[0]];
    if (act === undefined) mail.raw = await new Response(message.raw).text();
    else mail.done = await Promise.resolve(act(message)).catch(failure);
    received.push(mail);
  },
};
