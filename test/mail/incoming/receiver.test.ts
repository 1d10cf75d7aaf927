// The e-mail receiver, with a real SMTP client or a bare socket. DNS answers come from a list.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect as secure } from 'node:tls';
import { createTransport } from 'nodemailer';
import { ownCertificate } from '../../../runtime/mail/incoming/certificate.ts';
import type { Outcome } from '../../../runtime/mail/incoming/delivery.ts';
import type { Incoming } from '../../../runtime/mail/incoming/incoming.ts';
import { APP_HEADER, ENVELOPE_HEADER, OWNER_HEADER } from '../../../runtime/mail/incoming/messages.ts';
import { CONNECTIONS, CONNECTIONS_OF_ADDRESS, Receiver } from '../../../runtime/mail/incoming/receiver.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const DEADLINE_MS = 30_000;
const RECORDS: Record<string, string[][]> = {
  'TXT strict.example': [['v=spf1 -all']],
  'TXT _dmarc.strict.example': [['v=DMARC1; p=reject']],
  'TXT good.example': [['v=spf1 ip4:127.0.0.1 -all']],
  'TXT _dmarc.good.example': [['v=DMARC1; p=reject']],
};

interface Made {
  port: number;
  mails: Incoming[];
  send: (fields: object) => Promise<{ response: string }>;
}

/** Starts a receiver. Every address except `nobody@…` belongs to an app. `take` answers an e-mail for the app. */
async function receiver(
  t: TestContext,
  {
    take = () => ({ kind: 'accepted' }),
    limits = {},
  }: {
    take?: (mail: Incoming) => Outcome | Promise<Outcome>;
    limits?: { connectionMs?: number; silenceMs?: number };
  } = {},
): Promise<Made> {
  const socket = join(temporaryDirectory(t), 's');
  const host = createServer((request, response) => {
    const { to } = JSON.parse(request.headers[ENVELOPE_HEADER] as string) as { to: string };
    if (to.startsWith('nobody@')) response.writeHead(404).end();
    // The part before the @, without digits at its end, names the account.
    else
      response
        .writeHead(204, { [APP_HEADER]: to.replace('@', '-at-'), [OWNER_HEADER]: to.split(/\d*@/)[0]! })
        .end();
  });
  host.listen(socket);
  const mails: Incoming[] = [];
  const { server } = new Receiver({
    name: 'mx.example',
    socket,
    tls: await ownCertificate('mx.example'),
    deliveries: {
      deliver: async (mail) => {
        mails.push(mail);
        return take(mail);
      },
    },
    lookup: async (name, type) => {
      const found = RECORDS[`${type} ${name}`];
      if (found === undefined) throw Object.assign(new Error('no record'), { code: 'ENOTFOUND' });
      return found;
    },
    limits,
  });
  server.server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  t.after(async () => {
    await new Promise<void>((resolve) => server.close(() => resolve()));
    host.closeAllConnections();
    host.close();
  });
  const { port } = server.server.address() as AddressInfo;
  const client = createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } });
  const fields = { from: 'ann@good.example', to: 'info@shop.example', subject: 'Hello', text: 'Hi' };
  return { port, mails, send: (more) => client.sendMail({ ...fields, ...more }) };
}

const refused = (sent: Promise<unknown>, why: RegExp) =>
  assert.rejects(sent, (error: Error & { response?: string }) => {
    assert.match(String(error.response), why);
    return true;
  });

/** Connects, and waits for the greeting. `got` returns everything that has been received. */
async function open(
  port: number,
  localAddress = '127.0.0.1',
): Promise<{ socket: Socket; got: () => string }> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += String(chunk);
  });
  socket.on('error', () => {});
  await once(socket, 'data');
  return { socket, got: () => text };
}

async function until(isDone: () => boolean, what: string): Promise<void> {
  for (const deadline = Date.now() + DEADLINE_MS; !isDone(); await new Promise((go) => setImmediate(go)))
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
}

/** Connects and sends STARTTLS. @returns the socket, before the TLS handshake */
async function startTls(port: number): Promise<Socket> {
  const { socket } = await open(port);
  for (const line of ['EHLO x', 'STARTTLS']) {
    socket.write(`${line}\r\n`);
    await once(socket, 'data');
  }
  socket.removeAllListeners('data');
  return socket;
}

test('a message that its domain asks to refuse is refused, and results are in a header', async (t) => {
  const { send, mails } = await receiver(t);
  await refused(send({ from: 'ann@strict.example' }), /^550 5\.7\.26 /);
  assert.equal(mails.length, 0);
  await send({});
  const [mail] = mails;
  assert.equal(mail!.dmarc, 'pass');
  assert.match(mail!.raw.toString(), /^Authentication-Results: mx\.example;(?=.* spf=pass).* dmarc=pass/s);
});

test('a message to several addresses is handled once for each, also when it is sent again', async (t) => {
  let isDown = true;
  const { send, mails } = await receiver(t, {
    take: ({ to }) =>
      isDown && to === 'b@shop.example' ? { kind: 'failed', reason: 'it is down' } : { kind: 'accepted' },
  });
  const twice = { to: 'a@shop.example, b@shop.example', messageId: '<1@good.example>', date: new Date(0) };
  await refused(send(twice), /^451 4\.3\.0 b@shop\.example: it is down$/);
  isDown = false;
  await send(twice);
  assert.deepEqual(
    mails.map(({ to }) => to),
    ['a@shop.example', 'b@shop.example', 'b@shop.example'],
  );
});

test('a message that goes in a circle, or names two senders, is refused', async (t) => {
  const { send, mails } = await receiver(t);
  const received = Array.from({ length: 31 }, () => ({ key: 'Received', value: 'from a by b' }));
  await refused(send({ headers: received }), /^554 5\.4\.6 /);
  await refused(
    send({
      raw: 'From: a@good.example\r\nFrom: b@good.example\r\n\r\nHi\r\n',
      envelope: { from: 'a@good.example', to: 'info@shop.example' },
    }),
    /^550 5\.6\.0 /,
  );
  assert.equal(mails.length, 0);
});

test('a head that others could read in another way is refused', { timeout: DEADLINE_MS }, async (t) => {
  const { port, mails } = await receiver(t);
  const from = 'From: a@good.example';
  for (const head of [
    `${from}\r\nX: a\rFrom: boss@shop.example`,
    `${from}\r\nno header`,
    `${from}\n\r\nX: a`,
    `${from}\r\nX: ${'x'.repeat(300_000)}`,
  ]) {
    const { socket, got } = await open(port);
    const steps = ['EHLO x', 'MAIL FROM:<a@good.example>', 'RCPT TO:<info@shop.example>', 'DATA'];
    for (const line of [...steps, `${head}\r\n\r\nHi\r\n.`]) {
      socket.write(`${line}\r\n`);
      await once(socket, 'data');
    }
    assert.match(got(), /354 .*\r\n554 5\.6\.0 /s, head.slice(0, 100));
    socket.destroy();
  }
  assert.equal(mails.length, 0);
});

test('it relays nothing', async (t) => {
  const { send, mails } = await receiver(t);
  await refused(send({ to: 'nobody@elsewhere.example' }), /^550 5\.1\.1 /);
  assert.equal(mails.length, 0);
});

test('one address has a few connections', async (t) => {
  const { port } = await receiver(t);
  const all = [];
  for (let n = 0; n < CONNECTIONS_OF_ADDRESS; n++) all.push(await open(port));
  const last = await open(port);
  assert.match(last.got(), /^421 .*too many connections/);
  for (const { socket, got } of all) {
    assert.match(got(), /^220 /);
    socket.destroy();
  }
});

test('addresses that take all connections lose one to a newcomer, an idle one first', async (t) => {
  const { port, send } = await receiver(t);
  const addresses = CONNECTIONS / CONNECTIONS_OF_ADDRESS;
  const openAll = (address: string, count = CONNECTIONS_OF_ADDRESS) =>
    Promise.all(Array.from({ length: count }, () => open(port, address)));
  const busy = await open(port, '127.0.1.0');
  for (const line of ['EHLO x', 'MAIL FROM:<a@good.example>', 'RCPT TO:<info@shop.example>', 'DATA']) {
    busy.socket.write(`${line}\r\n`);
    await once(busy.socket, 'data');
  }
  const greedy = await openAll('127.0.1.0', CONNECTIONS_OF_ADDRESS - 1);
  const others = await Promise.all(
    Array.from({ length: addresses - 1 }, (_, n) => openAll(`127.0.1.${n + 1}`, CONNECTIONS_OF_ADDRESS)),
  );
  await send({});
  await until(() => /421 .*too many connections/.test(greedy[0]!.got()), 'the oldest idle one has ended');
  assert.match(busy.got(), /\n354 .*\r\n$/);
  assert.match((await open(port, '127.0.1.1')).got(), /^421 .*too many connections/);
  for (const { socket } of [busy, ...greedy, ...others.flat()]) socket.destroy();
});

test('accounts whose handlers never end leave places to others', { timeout: DEADLINE_MS }, async (t) => {
  const ends: (() => void)[] = [];
  const { send, mails } = await receiver(t, {
    take: async ({ to }) => {
      if (to.startsWith('greedy')) await new Promise<void>((resolve) => ends.push(resolve));
      return { kind: 'accepted' };
    },
  });
  const all = ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((account) =>
    Array.from({ length: 8 }, (_, n) => `greedy${account}${n}@shop.example`),
  );
  const greedy = send({ to: all.join() });
  await until(() => mails.length >= 24, 'the greedy accounts have begun');
  await send({ to: 'good@shop.example' });
  let isOver = false;
  void greedy.finally(() => {
    isOver = true;
  });
  await until(() => {
    for (const end of ends.splice(0)) end();
    return isOver;
  }, 'the others have ended');
  assert.equal(mails.length, all.length + 1);
});

test('a slow client loses its connection, also with TLS', { timeout: DEADLINE_MS }, async (t) => {
  const quick = await receiver(t, { limits: { silenceMs: 300 } });
  const silent = await open(quick.port);
  const shaking = await startTls(quick.port);
  // This client begins the TLS handshake and does not finish it.
  shaking.resume().write('\x16\x03\x01');
  await Promise.all([once(silent.socket, 'close'), once(shaking, 'close')]);
  assert.match(silent.got(), /421 /);
  await quick.send({});
});

test('a connection ends after some time, also with TLS', { timeout: DEADLINE_MS }, async (t) => {
  const { port } = await receiver(t, { limits: { connectionMs: 1_000 } });
  const { socket: plain, got } = await open(port);
  const secured = secure({ socket: await startTls(port), rejectUnauthorized: false });
  await once(secured, 'secureConnect');
  secured.on('error', () => {}).resume();
  const drip = setInterval(() => {
    plain.write('NOOP\r\n');
    secured.write('NOOP\r\n');
  }, 50);
  t.after(() => clearInterval(drip));
  await Promise.all([once(plain, 'close'), once(secured, 'close')]);
  assert.match(got(), /421 .*lasted too long/);
});

test('one account leaves places to others', { timeout: DEADLINE_MS }, async (t) => {
  const ends: (() => void)[] = [];
  const { send, mails } = await receiver(t, {
    take: async ({ to }) => {
      if (to.startsWith('greedy')) await new Promise<void>((resolve) => ends.push(resolve));
      return { kind: 'accepted' };
    },
  });
  const all = Array.from({ length: 90 }, (_, n) => `greedy${n}@shop.example`);
  const greedy = refused(send({ to: all.join() }), /^451 4\.3\.0 .*too many e-mails at a time/);
  while (ends.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await send({ to: 'good@shop.example' });
  const begun = mails.filter(({ to }) => to.startsWith('greedy')).length;
  assert.ok(begun < 24, `${begun} of the greedy account have begun`);
  let isOver = false;
  void greedy.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    for (const end of ends.splice(0)) end();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await greedy;
});
