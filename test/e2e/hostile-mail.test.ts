// Hostile e-mails, and hostile apps that get e-mails: other apps get theirs, and nothing is relayed.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { createTransport } from 'nodemailer';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Inbox, PASSWORD } from '../support/mail/inbox.ts';
import { ownPort } from '../support/ports.ts';

const inbox = await Inbox.start();
const port = ownPort();
const cellar = new Cellar({
  RUNNER_MAIL_PORT: String(port),
  RUNNER_SMTP_URL: inbox.url,
  RUNNER_SMTP_FROM: 'cellar@example.com',
  RUNNER_SMTP_APP_SENDERS: 'hostile.localhost',
});
const rpc = rpcOf(cellar);
const config = { main: 'index.js', compatibility_date: '2026-10-01', limits: { cpu_ms: 500 } };
before(async () => {
  await cellar.start();
  const hostile = await cellar.deploy('hostile', 'hostile', { 'wrangler.jsonc': JSON.stringify(config) });
  await rpc('mail.routes.set', { id: hostile, address: '*@hostile.localhost' });
  const good = await cellar.deploy('good', 'mail-in');
  await rpc('mail.routes.set', { id: good, address: 'info@good.localhost' });
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await inbox.close();
});

const client = createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } });
const send = (to: string, more = {}) =>
  client.sendMail({ from: 'ann@example.org', to, subject: 'Hello', text: 'Hi', ...more });
const refuses = (to: string, why: RegExp, more = {}) =>
  assert.rejects(send(to, more), (error: Error & { response?: string }) => {
    assert.match(String(error.response), why);
    return true;
  });
const received = async () => JSON.parse((await cellar.get('good')).text);

test('an app sends nothing to others by replies and forwards', async (t) => {
  await send('relay@hostile.localhost');
  const said: string[] = JSON.parse((await cellar.get('hostile', '/mailed')).text);
  t.diagnostic(`${said.length} tries, ${inbox.received.length} e-mails`);
  assert.ok(said.length > 240);
  assert.ok(inbox.received.length <= 50, `${inbox.received.length}`);
  for (const { from, to, text } of inbox.received) {
    assert.deepEqual([from, to], ['relay@hostile.localhost', ['ann@example.org']]);
    const head = text.split('\n\n')[0]!;
    assert.doesNotMatch(head, /^(?:bcc|sender|resent-to):|^to:.*victim/im);
    assert.match(head, /^From: (?:ann@example\.org|relay@hostile\.localhost)$/m);
  }
  assert.ok(!said.join().includes(PASSWORD));
});

test('handlers that never end, spin, do not read or say other things do not stop the e-mails of others', async () => {
  const never = Array.from({ length: 6 }, () => assert.rejects(send('never@hostile.localhost')));
  await refuses('loop@hostile.localhost', /^451 4\.3\.0 /);
  for (const to of ['info@good.localhost', 'info@good.localhost']) await send(to);
  await refuses('talk@hostile.localhost', /^451 4\.3\.0 /);
  await refuses('huge@hostile.localhost', /^550 5\.7\.1 x 250 ok y{1,300}$/);
  await send('unread@hostile.localhost', { text: 'x'.repeat(5_000_000) });
  await send('info@good.localhost');
  assert.equal((await received()).length, 3);
  // The spinning handler's process was ended, with the e-mails that it had.
  await Promise.all(never);
});

test('forged results are removed', async () => {
  const raw = (head: string) => ({
    raw: `From: ann@example.org\r\n${head}\r\nSubject: x\r\n\r\nHi\r\n`,
    envelope: { from: 'ann@example.org', to: 'info@good.localhost' },
  });
  const forged = 'localhost; dmarc=pass; spf=pass';
  for (const head of [
    `Authentication-Results: ${forged}`,
    `AUTHENTICATION-RESULTS : ${forged}`,
    `Authentication-Results:\r\n ${forged}`,
    `Received-SPF: pass`,
  ]) {
    await send('', raw(head));
    const { headers, raw: text } = (await received()).at(-1);
    assert.equal(headers.filter(([name]: [string]) => name === 'authentication-results').length, 1);
    assert.doesNotMatch(text, /dmarc=pass|received-spf: pass/i, head);
  }
});

test('endless lines and commands end their connection only', async () => {
  for (const line of [
    'x'.repeat(100),
    `EHLO ${'x'.repeat(100)}`,
    `EHLO x\r\n${'NOOP\r\nX\r\n'.repeat(50)}`,
  ]) {
    const socket = connect(port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.on('error', () => {}).resume();
    await once(socket, 'data');
    const flood = setInterval(() => socket.write(line.repeat(100)), 5);
    await closed;
    clearInterval(flood);
  }
  await send('info@good.localhost');
});

test('another account gets no e-mails of the first, and visitors and apps reach no handler', async () => {
  const { id: account } = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const eve = { key: (await rpc('keys.create', { account })).key };
  const { id } = await rpc('apps.create', { slug: 'eves' }, eve);
  for (const address of [
    '*@good.localhost',
    'info@good.localhost',
    '*@localhost',
    '*@*',
    'a@GOOD.localhost.',
  ]) {
    const { code } = await rpc('mail.routes.set', { id, address }, eve);
    assert.equal(code, 'invalid_input', address);
  }
  const count = (await received()).length;
  const upgrade =
    'upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==';
  for (const connection of ['upgrade', 'upgrade, x-cellar-call', 'close'])
    for (const path of ['/', '/cdn-cgi/handler/email?from=a@b.example&to=info@good.localhost']) {
      const socket = connect(cellar.edgePort, '127.0.0.1');
      socket.write(
        `GET ${path} HTTP/1.1\r\nhost: good.localhost\r\nconnection: ${connection}\r\n${upgrade}\r\nx-cellar-call: {"kind":"email"}\r\nx-cellar-envelope: {"to":"info@good.localhost"}\r\n\r\n`,
      );
      const [answer] = await once(socket, 'data');
      assert.match(String(answer), /^HTTP\/1\.1 (?:200|4\d\d) /);
      socket.destroy();
    }
  assert.equal((await received()).length, count);
});
