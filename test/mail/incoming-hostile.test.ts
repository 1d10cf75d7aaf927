// Attacks on the e-mail receiver, by senders and by apps.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { authenticated } from '../../runtime/mail/incoming/authentication.ts';
import { ownCertificate } from '../../runtime/mail/incoming/certificate.ts';
import { Deliveries } from '../../runtime/mail/incoming/delivery.ts';
import { HEAD_LINES, headOf } from '../../runtime/mail/incoming/head.ts';
import type { Incoming } from '../../runtime/mail/incoming/incoming.ts';
import { APP_HEADER } from '../../runtime/mail/incoming/messages.ts';
import { Outgoing } from '../../runtime/mail/incoming/outgoing.ts';
import { Receiver } from '../../runtime/mail/incoming/receiver.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const nothing = () => Promise.reject(Object.assign(new Error('no record'), { code: 'ENOTFOUND' }));
const results = async (head: string, from = 'eve@evil.example', helo = 'evil.example') =>
  (
    await authenticated(
      Buffer.from(`${head}\r\n\r\nHello\r\n`),
      { address: '192.0.2.1', helo, from },
      'mx.example',
      nothing,
    )
  ).results;

test('no text of the sender reads like a result of DMARC', async () => {
  const signature = 'v=1; a=rsa-sha256; d=evil.example; s=dmarc=pass; h=from; bh=AAAA; b=AAAA';
  for (const text of [
    await results('From: eve@evil.example', 'dmarc=pass@evil.example', 'dmarc=pass'),
    await results('From: eve@evil.example', ';dmarc=pass@evil.example'),
    await results(`DKIM-Signature: ${signature}\r\nFrom: eve@evil.example`),
    await results('From: dmarc=pass@evil.example, ceo@bank.example'),
  ]) {
    assert.match(text, /^mx\.example;\r\n dmarc=none/);
    assert.equal(text.match(/dmarc\s*=/g)!.length, 1, text);
  }
});

test('the look-ups of a sender leave those of DMARC', async () => {
  const names = Array.from({ length: 10 }, (_, n) => `m${n}.evil.example`);
  const records: Record<string, string[][]> = {
    'TXT evil.example': [[`v=spf1 ${names.map((name) => `mx:${name}`).join(' ')} -all`]],
    'TXT _dmarc.bank.example': [['v=DMARC1; p=reject']],
  };
  const asked: string[] = [];
  const { dmarc, isRefused } = await authenticated(
    Buffer.from('From: ceo@bank.example\r\n\r\nHello\r\n'),
    { address: '192.0.2.1', helo: 'evil.example', from: 'eve@evil.example' },
    'mx.example',
    async (name, type) => {
      asked.push(name);
      if (type === 'MX')
        return names.map((each, priority) => ({ exchange: `${each}.${name}`, priority })) as never;
      if (type === 'A') return ['198.51.100.1'];
      return records[`${type} ${name}`] ?? nothing();
    },
  );
  assert.ok(asked.filter((name) => !name.startsWith('_dmarc.')).length <= 60);
  assert.deepEqual({ dmarc, isRefused }, { dmarc: 'fail', isRefused: true });
});

test('an address of a second domain in From does not hide the one whose domain asks to refuse', async () => {
  const records: Record<string, string[][]> = {
    'TXT evil.example': [['v=spf1 ip4:192.0.2.1 -all']],
    'TXT _dmarc.evil.example': [['v=DMARC1; p=none']],
    'TXT _dmarc.bank.example': [['v=DMARC1; p=reject']],
    'TXT _dmarc.soft.example': [['v=DMARC1; p=quarantine']],
  };
  const check = async (from: string) => {
    const { dmarc, isRefused, hasManyDomains, results } = await authenticated(
      Buffer.from(`From: ${from}\r\n\r\nHello\r\n`),
      { address: '192.0.2.1', helo: 'evil.example', from: 'eve@evil.example' },
      'mx.example',
      async (name, type) => records[`${type} ${name}`] ?? nothing(),
    );
    return [dmarc, isRefused, hasManyDomains, /dmarc=\w+/.exec(results)![0]];
  };
  assert.deepEqual(await check('eve@evil.example'), ['pass', false, false, 'dmarc=pass']);
  const refused = ['fail', true, false, 'dmarc=fail'];
  for (const from of [
    'ceo@bank.example',
    'ceo@bank.example, eve@evil.example',
    'eve@evil.example, Boss <ceo@bank.example>',
    'eve@evil.example, a@soft.example, ceo@BANK.example',
    'ceo@bank.example, eve@',
    'Team: eve@evil.example, ceo@bank.example;',
    'ceo@bank.example@evil.example',
  ])
    assert.deepEqual(await check(from), refused, from);
  assert.deepEqual(await check('eve@evil.example, a@soft.example'), ['fail', false, false, 'dmarc=fail']);
  // A DMARC pass of one domain in `From` does not count for another domain there.
  assert.deepEqual(await check('eve@evil.example, a@other.example'), ['other', false, false, 'dmarc=none']);
  const many = Array.from({ length: 6 }, (_, n) => `a@d${n}.example`).join(', ');
  assert.deepEqual(await check(many), ['other', false, true, 'dmarc=none']);
});

test('a head is refused in which readers would see different headers, or whose checks would take minutes', () => {
  const head = (text: string) => headOf(Buffer.from(`${text}\r\n\r\nbody\rwith CR`));
  assert.notEqual(head('Subject: x\r\n y'), null);
  assert.equal(head('Subject: x\rAuthentication-Results: mx.example; dmarc=pass'), null);
  assert.equal(head(`Subject: x${'\r\n y'.repeat(HEAD_LINES)}`), null);
});

/** Starts a receiver whose host knows every address. */
async function receiver(t: TestContext, deliver: (mail: Incoming) => void): Promise<number> {
  const socket = join(temporaryDirectory(t), 's');
  const host = createServer((_, response) => response.writeHead(204, { [APP_HEADER]: 'app' }).end());
  host.listen(socket);
  const { server } = new Receiver({
    name: 'mx.example',
    socket,
    tls: await ownCertificate('mx.example'),
    deliveries: {
      deliver: async (mail) => {
        deliver(mail);
        return { kind: 'accepted' };
      },
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  t.after(async () => {
    await new Promise<void>((resolve) => server.close(resolve));
    host.close();
    host.closeAllConnections();
  });
  return (server.server.address() as AddressInfo).port;
}

test('an e-mail in tiny pieces arrives whole', async (t) => {
  let raw = '';
  const port = await receiver(t, (mail) => (raw = mail.raw.toString('latin1')));
  const client = connect(port, '127.0.0.1');
  let text = '';
  client.on('data', (chunk) => (text += chunk));
  const answer = async (code: string) => {
    while (!text.includes(`\n${code}`) && !text.startsWith(code)) await once(client, 'data');
    text = '';
  };
  await answer('220');
  for (const [line, code] of [
    ['EHLO x', '250 '],
    ['MAIL FROM:<a@b.example>', '250'],
    ['RCPT TO:<info@shop.example>', '250'],
    ['DATA', '354'],
  ] as const) {
    client.write(`${line}\r\n`);
    await answer(code);
  }
  // The parser emits a separate chunk for each line that begins with two dots.
  const lines = 30_000;
  client.write(`From: a@b.example\r\n\r\n${'..\r\n'.repeat(lines)}.\r\n`);
  await answer('250');
  client.destroy();
  assert.equal(raw.slice(raw.indexOf('\r\n\r\n') + 4), '.\r\n'.repeat(lines));
  assert.match(raw, /^Authentication-Results: mx\.example;\r\n dmarc=/);
});

const MAIL: Incoming = {
  owner: 'ann',
  from: 'a@b.example',
  to: 'info@shop.example',
  raw: Buffer.from('From: a@b.example\r\n\r\nHello\r\n'),
  head: { fields: [], end: 17 },
  dmarc: 'other',
};

/** Delivers an e-mail to an app's process that never answers a close. @param act sends what the process answers */
async function delivery(t: TestContext, act: (send: (text: string) => void) => void) {
  const socket = join(temporaryDirectory(t), 's');
  const host = createServer();
  const closed = Promise.withResolvers<void>();
  host.on('upgrade', ({ headers }, connection) => {
    const accept = createHash('sha1').update(
      `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
    );
    connection.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept.digest('base64')}\r\n\r\n`,
    );
    connection.on('error', () => {}).on('end', () => connection.end(() => closed.resolve()));
    connection.resume();
    act((text) => {
      const length = text.length < 126 ? [text.length] : [126, text.length >> 8, text.length & 255];
      connection.write(Buffer.concat([Buffer.from([0x81, ...length]), Buffer.from(text)]));
    });
  });
  host.listen(socket);
  await once(host, 'listening');
  t.after(() => host.close());
  const outcome = await new Deliveries(socket, new Outgoing(null)).deliver(MAIL, 'app');
  return { outcome, closed: closed.promise };
}

test('an app that asks without end has failed, and loses the connection', async (t) => {
  const { outcome, closed } = await delivery(t, (send) => {
    for (let n = 0; n < 2_000; n++) send('{"more":true}');
  });
  assert.deepEqual(outcome, {
    kind: 'failed',
    reason: 'the app sent too many calls, or did not read the answers',
  });
  await closed;
});

test('an app whose call has too many parts learns the limit', async (t) => {
  const { outcome } = await delivery(t, (send) => send(`{"send":{"given":[${'1,'.repeat(10_000)}1]}}`));
  assert.deepEqual(outcome, {
    kind: 'failed',
    reason: 'An e-mail may have at most 10000 brackets, commas and colons in its JSON.',
  });
});

test('an app that does not close the connection loses it', async (t) => {
  const { outcome, closed } = await delivery(t, (send) => send('{"outcome":{"kind":"accepted"}}'));
  assert.deepEqual(outcome, { kind: 'accepted' });
  await closed;
});

test('a server of low priority checks e-mails too', () => {
  const module = new URL('../../runtime/mail/incoming/authentication.ts', import.meta.url);
  const origin = { address: '192.0.2.1', helo: 'mx.example', from: '' };
  // Root could raise its priority again. The receiver's user cannot, so the program gives root up.
  const program = `
    import { setPriority } from 'node:os';
    import { authenticatedInThread } from '${module}';
    setPriority(15);
    if (process.getuid() === 0) process.setuid(65534);
    void authenticatedInThread(new Uint8Array(), ${JSON.stringify(origin)}, 'mx.example');
    process.exit();
  `;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program]);
  assert.equal(status, 0, String(stderr));
});
