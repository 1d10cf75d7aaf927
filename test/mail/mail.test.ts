// E-mails that Cellar sends, through a real SMTP server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { Budget } from '../../runtime/app-services/budget.ts';
import { readConfig } from '../../runtime/config.ts';
import { appSenders, mayBeSender } from '../../runtime/mail/addresses.ts';
import { AppServer } from '../../runtime/mail/app-server.ts';
import { MailError } from '../../runtime/mail/errors.ts';
import { BINDING_HEADER, bindingHeader } from '../../runtime/mail/headers.ts';
import { Mailer } from '../../runtime/mail/mail.ts';
import { messageOf } from '../../runtime/mail/message.ts';
import { Rates } from '../../runtime/mail/rates.ts';
import { isSender, type SmtpServer, smtpServer } from '../../runtime/mail/smtp-server.ts';
import { FairQueue } from '../../runtime/queues/fair-queue.ts';
import { listeningSocketOf, post } from '../support/app-socket.ts';
import { cpuTime } from '../support/cpu-time.ts';
import { Inbox, PASSWORD, USER } from '../support/mail/inbox.ts';
import { eventually } from '../support/processes.ts';

const FROM = 'Cellar <cellar@example.com>';
const mail = {
  to: 'bob@example.com',
  subject: 'You are invited',
  text: 'Open this link:\n\nhttp://x/invite\n',
};
const serverOf = (url: string) => smtpServer(url)!;

test('an e-mail reaches one person, from the configured sender', async (t) => {
  const inbox = await Inbox.of(t);
  const mailer = new Mailer(serverOf(inbox.url), FROM);
  assert.equal(await mailer.send(mail, 'ada'), null);
  const [{ from, to, text }] = inbox.received as [(typeof inbox.received)[0]];
  assert.deepEqual([from, to, inbox.tried], ['cellar@example.com', ['bob@example.com'], [USER]]);
  assert.match(text, /^From: Cellar <cellar@example.com>$/m);
  assert.match(text, /^To: bob@example.com$/m);
  assert.match(text, /^Subject: You are invited$/m);
  assert.match(text, /^Content-Type: text\/plain; charset=utf-8$/m);
  assert.match(text, /\n\nOpen this link:\n\nhttp:\/\/x\/invite\n$/);
});

test('an address or a subject cannot add a header, a receiver or a command', async (t) => {
  const inbox = await Inbox.of(t);
  const mailer = new Mailer(serverOf(inbox.url), FROM);
  const addresses = [
    'bob@example.com\r\nBcc: eve@example.com',
    'bob@example.com, eve@example.com',
    'bob@example.com>\r\nRCPT TO:<eve@example.com',
    'Eve <eve@example.com>',
    'bob@example.com;eve@example.com',
    '"eve@example.com"@example.com',
    'bob',
    '',
  ];
  for (const to of addresses)
    assert.equal(await mailer.send({ ...mail, to }, 'ada'), 'the e-mail address is not valid', to);
  assert.equal(inbox.received.length, 0);
  const subject = 'Hello\r\nBcc: eve@example.com\r\n\r\nanother body';
  assert.equal(await mailer.send({ ...mail, subject }, 'ada'), null);
  assert.deepEqual(inbox.received[0]!.to, ['bob@example.com']);
  assert.doesNotMatch(inbox.received[0]!.text, /^Bcc/m);
  assert.match(inbox.received[0]!.text, /\n\nOpen this link:/);
  // A line with a single dot must not end the e-mail, or the next line would be a command.
  assert.equal(
    await mailer.send({ ...mail, text: 'one\r\n.\r\nMAIL FROM:<eve@example.com>\r\n' }, 'ada'),
    null,
  );
  assert.deepEqual(
    inbox.received.map(({ from }) => from),
    ['cellar@example.com', 'cellar@example.com'],
  );
});

test('a refused password is reported without the server’s text, which may repeat it', async (t) => {
  const inbox = await Inbox.of(t);
  const mailer = new Mailer({ ...serverOf(inbox.url), password: 'wrong' }, FROM);
  assert.equal(
    await mailer.send(mail, 'ada'),
    'the mail server refuses the user and password of RUNNER_SMTP_URL',
  );
  assert.deepEqual([inbox.tried, inbox.received], [[USER], []]);
});

test('a server that refuses the receiver is quoted, truncated', async (t) => {
  const onRcptTo: NonNullable<Parameters<typeof Inbox.start>[0]>['onRcptTo'] = (_address, _session, answer) =>
    answer(new Error(`nobody\u0009here ${'x'.repeat(400)}`));
  const inbox = await Inbox.of(t, { onRcptTo });
  const why = await new Mailer(serverOf(inbox.url), FROM).send(mail, 'ada');
  assert.match(why!, /nobody here/);
  assert.ok(why!.length <= 300);
});

test('the log does not name the person, whose address the server may repeat', async (t) => {
  const onRcptTo: NonNullable<Parameters<typeof Inbox.start>[0]>['onRcptTo'] = (_address, _session, answer) =>
    answer(new Error('5.1.1 <bob@example.com>: Recipient address rejected, as is Bob@Mail.Example.com'));
  const inbox = await Inbox.of(t, { onRcptTo });
  // The line is written at most once a minute, and other tests cause it too.
  const later = performance.now() + 10 * 60_000;
  t.mock.method(performance, 'now', () => later);
  const output = t.mock.method(process.stdout, 'write');
  const why = await new Mailer(serverOf(inbox.url), FROM).send(mail, 'ada');
  const written = output.mock.calls.map(({ arguments: [text] }) => String(text));
  assert.match(why!, /bob@example\.com/);
  const line = written.find((text) => text.includes('an e-mail could not be sent'))!;
  assert.match(line, /550 5\.1\.1 <…>: Recipient address rejected/);
  assert.doesNotMatch(line, /bob|@/i);
});

test('no password is sent in clear text, or to a server with an untrusted certificate', async (t) => {
  // The mailer treats the server as one on another machine.
  const elsewhere = (inbox: Inbox): SmtpServer => ({ ...serverOf(inbox.url), isLocal: false });
  const plain = await Inbox.of(t, { disabledCommands: ['STARTTLS'] });
  assert.match((await new Mailer(elsewhere(plain), FROM).send(mail, 'ada'))!, /STARTTLS/);
  const unknown = await Inbox.of(t);
  assert.match((await new Mailer(elsewhere(unknown), FROM).send(mail, 'ada'))!, /certificate|TLS/);
  const secure = await Inbox.of(t, { secure: true });
  assert.match(
    (await new Mailer({ ...elsewhere(secure), isSecure: true }, FROM).send(mail, 'ada'))!,
    /certificate/,
  );
  for (const { tried, received } of [plain, unknown, secure]) assert.deepEqual([tried, received], [[], []]);
});

test('a server that is silent, unreachable, or sends without end is given up', async (t) => {
  const sockets = new Set<Socket>();
  const start = async (greet: (socket: Socket) => void) => {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
      greet(socket);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return serverOf(`smtp://127.0.0.1:${(server.address() as AddressInfo).port}`);
  };
  const silent = await start(() => {});
  const mailer = new Mailer(silent, FROM, 200);
  const many = await Promise.all(Array.from({ length: 11 }, () => mailer.send(mail, 'ada')));
  assert.match(many.at(-1)!, /^at most 8 e-mails of one account may wait at once/);
  assert.equal(many[0], 'the mail server did not answer within 0.2 s');
  await Promise.all([...sockets].map((socket) => once(socket, 'close')));

  const endless = await start((socket) => {
    const line = `220-${'x'.repeat(1000)}\r\n`;
    const more = () => socket.writable && socket.write(line.repeat(64), more);
    more();
  });
  assert.notEqual(await new Mailer(endless, FROM, 20_000).send(mail, 'ada'), null);

  const stopped = new Mailer(silent, FROM, 20_000);
  const sent = stopped.send(mail, 'ada');
  stopped.stop();
  assert.match((await sent)!, /aborted/);
  assert.match((await new Mailer(serverOf('smtp://127.0.0.1:1'), FROM).send(mail, 'ada'))!, /ECONNREFUSED/);
  assert.match((await new Mailer(null, '').send(mail, 'ada'))!, /RUNNER_SMTP_URL/);
});

test('slow e-mails of one account leave a place to another account', async (t) => {
  const inbox = await Inbox.of(t, {
    onRcptTo: ({ address }, _session, answer) => {
      if (!address.startsWith('slow@')) answer();
    },
  });
  const mailer = new Mailer(serverOf(inbox.url), FROM, 20_000);
  const greedy = Array.from({ length: 8 }, () => mailer.send({ ...mail, to: 'slow@example.com' }, 'greedy'));
  assert.equal(await mailer.send(mail, 'modest'), null);
  mailer.stop();
  await Promise.all(greedy);
});

test("slow e-mails of one account's apps leave connections to another's", async (t) => {
  let slow = 0;
  const inbox = await Inbox.of(t, {
    onRcptTo: ({ address }, _session, answer) => {
      if (address.startsWith('slow@')) slow++;
      else answer();
    },
  });
  const rates = new Rates();
  const budget = new Budget(2 ** 30, (limit) => new Error(limit));
  const queue = new FairQueue({ name: 'e-mails', running: 24, runningPerOwner: 8, waitingPerOwner: 100 });
  const options = { server: serverOf(inbox.url), senders: appSenders(FROM, ['example.com']) };
  const serve = async (owner: string) => {
    const { handle, socket } = listeningSocketOf(t);
    const answerer = await AppServer.listen(handle, options, { owner, budget, queue, rates });
    t.after(() => answerer.close());
    return (to: string, signal?: AbortSignal) => {
      const body = JSON.stringify({ from: 'app@example.com', to, subject: 'x', text: 'x' });
      const headers = { [BINDING_HEADER]: bindingHeader({}) };
      return post(socket, '/', { headers, body, signal });
    };
  };
  const [first, second, modest] = [await serve('greedy'), await serve('greedy'), await serve('modest')];
  const leaving = new AbortController();
  for (let at = 0; at < 8; at++)
    for (const send of [first, second]) send('slow@example.com', leaving.signal).catch(() => {});
  await eventually(() => queue.waiting === 8 && slow === 8, 'eight wait for the other eight');
  const { status, text } = await modest('bob@example.com');
  assert.equal(status, 200, text);
  leaving.abort();
  await eventually(() => queue.waiting === 0, 'those that wait are gone with their clients');
  assert.equal(slow, 8);
});

test('apps send from the configured sender’s domain or from listed senders, within a rate limit', () => {
  const may = (allowed: string[], ...addresses: string[]) =>
    addresses.map((address) => mayBeSender(appSenders(FROM, allowed), address));
  assert.deepEqual(may([], 'a@EXAMPLE.com', 'cellar@example.com', 'a@b.example.com', 'a@example.org'), [
    ...[true, false, false, false],
  ]);
  const named = ['bücher.example', 'news@example.org', 'cellar@example.com'];
  const addresses = ['a@bücher.example', 'a@xn--bcher-kva.example', 'news@example.org', 'a@example.org'];
  assert.deepEqual(may(named, ...addresses, 'cellar@example.com', 'a@example.com'), [
    ...[true, true, true, false],
    ...[true, false],
  ]);
  assert.throws(
    () => readConfig({ RUNNER_SMTP_APP_SENDERS: 'a b@c, d' }),
    /RUNNER_SMTP_APP_SENDERS must be domains/,
  );
  const rates = new Rates();
  const minute = 60_000;
  for (let n = 0; n < 41; n++) rates.take(120, n * minute);
  assert.throws(() => rates.take(1, 40 * minute + 1), /120 e-mails a minute/);
  assert.throws(() => rates.take(120, 42 * minute), /5000 e-mails a day/);
  rates.take(80, 42 * minute);
  rates.take(120, 24 * 60 * minute);
});

test('the Message-ID that is added has the sender’s domain in ASCII', async () => {
  const envelope = { from: 'info@bücher.example', to: 'bob@example.com' };
  const head = 'From: info@xn--bcher-kva.example\r\nSubject: x\r\n\r\nx';
  for (const more of [{ raw: Buffer.from(head).toString('base64') }, { subject: 'x', text: 'x' }]) {
    const { id, raw } = await messageOf({ ...envelope, ...more }, undefined);
    assert.match(id, /^<[\w-]+@xn--bcher-kva\.example>$/);
    assert.ok(raw.toString().includes(`\r\nMessage-ID: ${id}\r\n`), raw.toString());
  }
});

test('input made to block the mail service is refused at once', async () => {
  const fields = { from: 'a@b.c', to: 'd@e.f', subject: 'x', text: 'x' };
  const long = (part: string) => part.repeat(2_000_000 / part.length);
  const file = { filename: 'a', type: 'a/b', disposition: 'attachment', content: long('AAAA').repeat(3) };
  const raw = (text: string) => ({ from: 'a@b.c', to: 'd@e.f', raw: Buffer.from(text).toString('base64') });
  const spent = cpuTime();
  for (const asked of [
    ...[' ', '<', '"', ' <', '" ', '\\"'].flatMap((part) => [
      { ...fields, from: long(part) },
      { ...fields, to: [`a${long(part)}`] },
      raw(`From: ${part.repeat(10_000)}\n\nx`),
      raw(`${long(part)}\n\nx`),
    ]),
    { ...fields, attachments: [{ ...file, type: `a/b${long(' ')}` }] },
    { ...fields, attachments: [file] },
    { ...fields, headers: { [long('-')]: 'x' } },
    raw(long('\r')),
    raw(`From: a@b.c${long('\n ')}\n\nx`),
  ])
    await assert.rejects(messageOf(asked, undefined), MailError, JSON.stringify(asked).slice(0, 200));
  assert.ok(spent() < 12_000, `${spent()} ms of the processor`);
  const quoted = cpuTime();
  await assert.rejects(messageOf(raw(`From: "${'\\"'.repeat(30_000)}\n\nx`), undefined), MailError);
  assert.ok(quoted() < 500, `${quoted()} ms of the processor`);
});

test('JSON of an e-mail whose values would fill the heap is refused before it is parsed', async (t) => {
  const budget = new Budget(2 ** 30, (limit) => new Error(limit));
  const queue = new FairQueue({ name: 'e-mails', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const options = { server: serverOf('smtp://127.0.0.1:1'), senders: appSenders(FROM, []) };
  const { handle, socket } = listeningSocketOf(t);
  const shared = { owner: 'greedy', budget, queue, rates: new Rates() };
  const answerer = await AppServer.listen(handle, options, shared);
  t.after(() => answerer.close());
  const headers = { [BINDING_HEADER]: bindingHeader({}) };
  const fields = '"from":"a@example.com","subject":"x","text":"x"';
  for (const [more, expected] of [
    [`"to":[${'1,'.repeat(10_000)}1]`, /at most 10000 brackets, commas and colons/],
    [`"to":[${'1,'.repeat(9_000)}1]`, /Invalid input/],
  ] as const) {
    const { status, text } = await post(socket, '/', { headers, body: `{${fields},${more}}` });
    assert.ok(status >= 400 && status < 500, text);
    assert.match(text, expected);
  }
});

test('the mail server’s settings are parsed, and no error shows its password', () => {
  assert.deepEqual(
    smtpServer(`smtp://${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}@mail.example.com`),
    {
      host: 'mail.example.com',
      port: 587,
      isSecure: false,
      isLocal: false,
      user: USER,
      password: PASSWORD,
    },
  );
  assert.deepEqual(
    [smtpServer('smtps://mail.example.com')!.port, smtpServer('smtp://[::1]:25')!.isLocal],
    [465, true],
  );
  const environment = { RUNNER_SMTP_FROM: FROM };
  for (const url of [
    'http://u:secret@x',
    'smtp://',
    'u:secret@x',
    'smtp://u:secret%zz@x',
    'smtp://u:secret@x/y?z=1',
  ]) {
    assert.throws(
      () => readConfig({ ...environment, RUNNER_SMTP_URL: url }),
      (error: Error) =>
        /^RUNNER_SMTP_URL must be like/.test(error.message) && !error.message.includes('secret@x'),
      url,
    );
  }
  assert.throws(() => readConfig({ RUNNER_SMTP_URL: 'smtp://x' }), /RUNNER_SMTP_FROM must be set/);
  for (const from of [
    'cellar@example.com',
    FROM,
    'Bob’s',
    'a@b\nBcc: c@d',
    'a@b, c@d',
    '<a@b>',
    'A <a@b> <c@d>',
  ])
    assert.equal(isSender(from), from === FROM || from === 'cellar@example.com', from);
});
