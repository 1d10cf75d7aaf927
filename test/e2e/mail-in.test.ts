// E-mails from a real SMTP client to the `email()` handler of a pushed app.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { createTransport } from 'nodemailer';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Inbox } from '../support/mail/inbox.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

const inbox = await Inbox.start();
const port = ownPort();
const cellar = new Cellar({
  RUNNER_MAIL_PORT: String(port),
  RUNNER_SMTP_URL: inbox.url,
  RUNNER_SMTP_FROM: 'Cellar <cellar@example.com>',
  RUNNER_SMTP_APP_SENDERS: 'mails.localhost',
});
const rpc = rpcOf(cellar);
let id = '';
before(async () => {
  await cellar.start();
  id = await cellar.deploy('mails', 'mail-in');
  await rpc('mail.routes.set', { id, address: '*@mails.localhost' });
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await inbox.close();
});

interface Mail {
  from: string;
  to: string;
  rawSize: number;
  headers: [string, string][];
  raw?: string;
  done?: { code?: string; message?: string; messageId?: string };
}

const client = (options = {}) =>
  createTransport({
    host: '127.0.0.1',
    port,
    tls: { rejectUnauthorized: false },
    requireTLS: true,
    ...options,
  });
const fields = { from: 'Ann <ann@example.org>', subject: 'Hello', text: 'How are you?' };
const send = (to: string, more = {}) => client().sendMail({ ...fields, to, ...more });
const received = async () => JSON.parse((await cellar.get('mails', '/')).text) as Mail[];
const last = async () => (await received()).at(-1)!;
const refuses = (to: string, why: RegExp, more = {}) =>
  assert.rejects(send(to, more), (error: Error & { response?: string }) => {
    assert.match(String(error.response), why);
    return true;
  });

test('an app gets an e-mail with its headers and content', async () => {
  await send('info@mails.localhost', { headers: { 'X-Order': 'ä 17' } });
  const { from, to, headers, raw, rawSize } = await last();
  assert.deepEqual([from, to], ['ann@example.org', 'info@mails.localhost']);
  assert.equal(raw!.length, rawSize);
  assert.match(raw!, /\r\n\r\nHow are you\?\r\n$/);
  const header = (name: string) => headers.find(([each]) => each === name)?.[1];
  assert.equal(header('subject'), 'Hello');
  assert.match(header('received')!, /^from \S+ \(\[127\.0\.0\.1\]\) by localhost with ESMTPS id \w+;/);
  assert.match(header('authentication-results')!, /^localhost;.*spf=/s);
});

test('what a handler decides is the answer of the server', async () => {
  await refuses('no@mails.localhost', /^550 5\.7\.1 we are closed 250 ok$/);
  await refuses('broken@mails.localhost', /^451 4\.3\.0 the app failed$/);
  await refuses('info@elsewhere.example', /^550 5\.1\.1 there is no such address here$/);
});

test('forwards and replies go out by the mail server', async () => {
  await send('forward@mails.localhost');
  assert.ok((await last()).done!.messageId, JSON.stringify((await last()).done));
  const forwarded = inbox.received.at(-1)!;
  assert.deepEqual([forwarded.from, forwarded.to], ['forward@mails.localhost', ['bob@example.net']]);
  assert.match(forwarded.text, /^X-Via: mail-in$/im);
  assert.match(forwarded.text, /^From: Ann <ann@example\.org>$/m);
  for (const name of ['fields', 'raw']) {
    const { messageId } = await send(`${name}@mails.localhost`);
    assert.ok((await last()).done!.messageId, JSON.stringify((await last()).done));
    const reply = inbox.received.at(-1)!;
    assert.deepEqual([reply.from, reply.to], [`${name}@mails.localhost`, ['ann@example.org']]);
    assert.ok(reply.text.includes(`In-Reply-To: ${messageId}`), reply.text);
  }
  const before = inbox.received.length;
  for (const [name, code] of [
    ['evil', 'E_HEADER_USE_API_FIELD'],
    ['unthreaded', 'E_VALIDATION_ERROR'],
    ['stranger', 'E_RECIPIENT_NOT_ALLOWED'],
  ] as const) {
    await send(`${name}@mails.localhost`);
    assert.equal((await last()).done!.code, code);
  }
  assert.equal(inbox.received.length, before);
});

test('an e-mail of 20 MB arrives whole, and one of more than 25 is refused', async () => {
  const content = Buffer.alloc(15 * 2 ** 20, 'x');
  await send('info@mails.localhost', { attachments: [{ filename: 'large', content }] });
  const { raw, rawSize } = await last();
  assert.equal(raw!.length, rawSize);
  assert.ok(rawSize > 20e6);
  await refuses('info@mails.localhost', /^552 5\.3\.4/, {
    attachments: [{ filename: 'huge', content: Buffer.alloc(20 * 2 ** 20, 'x') }],
  });
});

test('a sleeping app wakes, and its log names the e-mail', async () => {
  await rpc('apps.sleep', { id });
  await send('info@mails.localhost');
  assert.equal((await received()).length, 1);
  assert.equal((await last()).to, 'info@mails.localhost');
  await eventually(
    async () =>
      JSON.stringify(await rpc('logs.list', { id })).includes(
        'email from ann@example.org to info@mails.localhost accepted',
      ),
    'the log names the e-mail',
  );
});

test('strangers reach the handler by SMTP only', async () => {
  const before = (await received()).length;
  for (const path of ['/cdn-cgi/handler/email?from=a@b.example&to=info@mails.localhost', '/'])
    await cellar.get('mails', path, {
      method: 'POST',
      headers: { 'x-cellar-call': '{"kind":"email"}', 'x-cellar-envelope': '{"to":"info@mails.localhost"}' },
      body: 'Subject: x\r\n\r\n',
    });
  assert.equal((await received()).length, before);
});

test('nobody gets an address of another app', async () => {
  const other = await rpc('apps.create', { slug: 'other' });
  const taken = await rpc('mail.routes.set', { id: other.id, address: 'info@mails.localhost' });
  assert.equal(taken.code, 'invalid_input');
  await rpc('mail.routes.set', { id: other.id, address: 'Info@other.localhost' });
  const { items } = await rpc('mail.routes.list', { id: other.id });
  assert.deepEqual(
    items.map(({ address }: { address: string }) => address),
    ['info@other.localhost'],
  );
  await refuses('info@other.localhost', /^451 4\.3\.0/);
  await rpc('mail.routes.delete', { id: other.id, address: 'info@other.localhost' });
  await refuses('info@other.localhost', /^550 5\.1\.1/);
});

test('forged results are removed', async () => {
  await send('info@mails.localhost', { headers: { 'Authentication-Results': 'localhost; dmarc=pass' } });
  const { headers } = await last();
  const results = headers.filter(([name]) => name === 'authentication-results');
  assert.equal(results.length, 1);
  assert.doesNotMatch(results[0]![1], /dmarc=pass/);
});

test('the server survives clients that break the rules', async () => {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => (text += chunk));
  const ended = new Promise((resolve) => socket.on('close', resolve));
  await once(socket, 'data');
  socket.write(`EHLO x\r\nMAIL FROM:<a@b.example>\r\n`);
  for (let n = 0; n < 30; n++) socket.write(`RCPT TO:<guess${n}@nobody.example>\r\n`);
  await ended;
  assert.match(text, /421 .*too many unknown addresses/);
  await send('info@mails.localhost');
});
