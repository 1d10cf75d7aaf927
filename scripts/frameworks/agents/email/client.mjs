// Sends e-mails by SMTP to addresses of agents. The agents reply.
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import { eventually, get, host } from './support.mjs';

const { MAIL_PORT, INBOX } = process.env;
const { hostname } = new URL(`http://${host}`);
const transport = createTransport({ host: '127.0.0.1', port: MAIL_PORT, tls: { rejectUnauthorized: false } });
const send = (to, subject) =>
  transport.sendMail({ from: 'ann@example.org', to: `${to}@${hostname}`, subject, text: 'How are you?' });
await send('support', 'Hello');
await send('support', 'Again');
await send('mailbox+sales', 'Buy');
await assert.rejects(send('support', 'Refuse'), /not wanted/);
const mails = JSON.parse(await get('/support'));
assert.deepEqual(
  mails.map(({ subject, text }) => `${subject}: ${text}`),
  ['Hello: How are you?', 'Again: How are you?', 'Refuse: How are you?'],
);
assert.equal(JSON.parse(await get('/sales')).length, 1);
const replies = await eventually('the replies arrive', async () => {
  const received = await (await fetch(INBOX)).json();
  return received.length === 3 && received;
});
assert.deepEqual(replies[1].to, ['ann@example.org']);
assert.match(replies[1].text, /In-Reply-To: [\s\S]*Mail 2 has arrived/);
