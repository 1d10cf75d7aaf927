// E-mails from a pushed app through the mail service to a real SMTP server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Inbox, PASSWORD, USER } from '../support/mail/inbox.ts';

const inbox = await Inbox.start();
const cellar = new Cellar({
  RUNNER_SMTP_URL: inbox.url,
  RUNNER_SMTP_FROM: 'Cellar <cellar@example.com>',
});
before(async () => {
  await cellar.start();
  await cellar.deploy('mails', 'mail');
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await inbox.close();
});

const send = async (binding: string, way: string, message: unknown) => {
  const answer = await cellar.get('mails', `/${binding}/${way}`, {
    method: 'POST',
    body: JSON.stringify(message),
  });
  return JSON.parse(answer.text) as { messageId?: string; code?: string; message?: string };
};
const fields = {
  from: 'shop@example.com',
  to: 'bob@example.net',
  subject: 'Order',
  text: 'It is on its way.',
};
const raw = (head: Record<string, string>, body = 'Hello\n') =>
  `${Object.entries(head)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('')}\n${body}`;
const head = { From: 'Shop <shop@example.com>', To: 'bob@example.net', Subject: 'Raw' };
/** Asserts that a message is refused and not sent. */
const refuses = async (binding: string, way: string, message: unknown, code: string, why: RegExp) => {
  const before = inbox.received.length;
  const answer = await send(binding, way, message);
  assert.equal(answer.code, code, String(answer.message));
  assert.match(answer.message!, why);
  assert.ok(!answer.message!.includes(PASSWORD));
  assert.equal(inbox.received.length, before);
};

test('an app sends an e-mail from fields, with copies and attachments', async () => {
  const { messageId, message } = await send('ANY', 'fields', {
    ...fields,
    from: { email: 'shop@example.com', name: 'The Shöp' },
    to: ['bob@example.net', 'Eve <eve@example.net>'],
    cc: 'carol@example.net',
    bcc: [{ email: 'dan@example.net', name: 'Dan' }],
    replyTo: 'help@example.com',
    html: '<p>It is <b>on its way</b>.</p><img src="cid:logo">',
    headers: { 'X-Order': '17', 'List-Unsubscribe': '<mailto:stop@example.com>' },
    attachments: [
      { filename: 'bill.txt', type: 'text/plain', disposition: 'attachment', content: 'bytes:€ 3' },
      { filename: 'logo.png', type: 'image/png', disposition: 'inline', contentId: 'logo', content: 'AAEC' },
    ],
  });
  assert.ok(messageId, String(message));
  const { from, to, text } = inbox.received.at(-1)!;
  assert.equal(from, 'shop@example.com');
  assert.deepEqual(to, ['bob@example.net', 'eve@example.net', 'carol@example.net', 'dan@example.net']);
  for (const line of [
    /^From: =\?UTF-8\?\S+\?= <shop@example.com>$/m,
    /^To: bob@example.net, Eve <eve@example.net>$/m,
    /^Cc: carol@example.net$/m,
    /^Reply-To: help@example.com$/m,
    /^Subject: Order$/m,
    /^X-Order: 17$/m,
    /^List-Unsubscribe: <mailto:stop@example.com>$/m,
    /^Content-Disposition: attachment; filename=bill.txt$/m,
    /^Content-ID: <logo>$/m,
    new RegExp(Buffer.from('€ 3').toString('base64')),
    /^AAEC$/m,
  ])
    assert.match(text, line);
  assert.ok(text.includes(`Message-ID: ${messageId}`));
  assert.doesNotMatch(text, /dan@example.net/);
  assert.equal(inbox.tried.at(-1), USER);
});

test('an app sends a raw e-mail, as a string or a stream', async () => {
  const id = '<mine@example.com>';
  for (const way of ['raw', 'stream']) {
    const text = raw(
      { ...head, 'Message-ID': id, Bcc: 'dan@example.net' },
      'ä\n.\nMAIL FROM:<x@example.com>\r\r.\r',
    );
    assert.deepEqual(await send('ANY', way, { from: 'shop@example.com', to: 'bob@example.net', raw: text }), {
      messageId: id,
    });
    const received = inbox.received.at(-1)!;
    assert.deepEqual(received.to, ['bob@example.net']);
    assert.equal(
      received.text.trimEnd(),
      raw({ ...head, 'Message-ID': id }, 'ä\n.\nMAIL FROM:<x@example.com>\n\n.').trimEnd(),
    );
  }
  const { messageId } = await send('ANY', 'raw', {
    from: 'shop@example.com',
    to: 'bob@example.net',
    raw: raw(head),
  });
  assert.match(inbox.received.at(-1)!.text, new RegExp(`^Message-ID: ${messageId}$`, 'm'));
});

test('a binding sends only from and to its allowed addresses', async () => {
  const none = { ...fields, to: undefined };
  assert.ok((await send('ONE', 'fields', none)).messageId);
  assert.deepEqual(inbox.received.at(-1)!.to, ['bob@example.net']);
  assert.ok((await send('ONE', 'raw', { from: 'shop@example.com', to: null, raw: raw(head) })).messageId);
  assert.ok(
    (await send('FEW', 'fields', { ...fields, to: ['Bob@example.net', 'eve@example.net'] })).messageId,
  );
  const eve = { ...fields, to: 'bob@example.net', bcc: 'eve@example.net' };
  await refuses('ONE', 'fields', eve, 'E_RECIPIENT_NOT_ALLOWED', /may not send to eve@example.net/);
  await refuses(
    'FEW',
    'fields',
    { ...eve, cc: 'dan@example.net' },
    'E_RECIPIENT_NOT_ALLOWED',
    /dan@example.net/,
  );
  const from = { ...fields, from: 'bills@example.com' };
  await refuses('FEW', 'fields', from, 'E_SENDER_NOT_VERIFIED', /"allowed_sender_addresses"/);
  for (const sender of ['cellar@example.com', 'Cellar@EXAMPLE.com', 'a@sub.example.com', 'a@bank.example'])
    await refuses(
      'ANY',
      'fields',
      { ...fields, from: sender },
      'E_SENDER_NOT_VERIFIED',
      /RUNNER_SMTP_APP_SENDERS/,
    );
});

test('no part of a message adds a sender, a recipient, a header or a second e-mail', async () => {
  const sent = (text: string) => ({ from: 'shop@example.com', to: 'bob@example.net', raw: text });
  for (const From of [
    'ceo@bank.example',
    'ceo@bank.example, shop@example.com',
    'ceo@bank.example <x@example.com>',
  ])
    await refuses(
      'ANY',
      'raw',
      sent(raw({ ...head, From })),
      'E_SENDER_NOT_VERIFIED',
      /must name only its sender, shop@example.com/,
    );
  const twice = `From: ceo@bank.example\n${raw(head)}`;
  await refuses('ANY', 'raw', sent(twice), 'E_VALIDATION_ERROR', /one From header/);
  const sender = raw({ ...head, Sender: 'ceo@bank.example' });
  await refuses('ANY', 'raw', sent(sender), 'E_SENDER_NOT_VERIFIED', /^The sender header/);
  await refuses('ANY', 'raw', sent(raw({ ...head, Received: 'x' })), 'E_HEADER_NOT_ALLOWED', /received/);
  await refuses('ANY', 'raw', sent('From shop\n\nx'), 'E_VALIDATION_ERROR', /not a header/);
  await refuses('ANY', 'raw', sent('nothing'), 'E_VALIDATION_ERROR', /no empty line/);
  for (const to of ['bob@example.net>\r\nRCPT TO:<eve@example.net', 'a@b, c@d', '"x"@y', 'bob', ''])
    for (const message of [
      { ...fields, to },
      { ...fields, replyTo: to },
    ])
      await refuses('ANY', 'fields', message, 'E_VALIDATION_ERROR', /must be an e-mail address/);
  await refuses(
    'ANY',
    'raw',
    { ...sent(raw(head)), to: 'a@b\r\nDATA' },
    'E_VALIDATION_ERROR',
    /not an e-mail/,
  );
  const headers = (given: object) => ({ ...fields, headers: given });
  await refuses('ANY', 'fields', headers({ Bcc: 'a@b.c' }), 'E_HEADER_USE_API_FIELD', /"Bcc"/);
  await refuses('ANY', 'fields', headers({ Sender: 'a@b.c' }), 'E_HEADER_NOT_ALLOWED', /"Sender"/);
  await refuses('ANY', 'fields', headers({ 'X-A': 'b\r\nBcc: c@d.e' }), 'E_HEADER_VALUE_INVALID', /one line/);
  await refuses(
    'ANY',
    'fields',
    headers({ 'X-A\r\nBcc': 'c@d.e' }),
    'E_HEADER_VALUE_INVALID',
    /not the name/,
  );
  const file = {
    filename: 'a',
    type: 'text/plain',
    disposition: 'attachment',
    path: '/etc/passwd',
    href: 'file:///etc/passwd',
  };
  await refuses(
    'ANY',
    'fields',
    { ...fields, attachments: [{ ...file, content: 'no base64!' }] },
    'E_VALIDATION_ERROR',
    /attachments\[0\].content/,
  );
  // A text that names a file stays a text, and a line break in a subject adds no header.
  const result = await send('ANY', 'fields', {
    ...fields,
    subject: 'a\r\nBcc: eve@example.net\r\n\r\nb',
    attachments: [{ ...file, content: 'AAEC' }],
  });
  assert.ok(result.messageId, String(result.message));
  const { to, text } = inbox.received.at(-1)!;
  assert.deepEqual(to, ['bob@example.net']);
  assert.doesNotMatch(text, /^Bcc|root:/m);
});

test('missing fields, exceeded limits and refusals of the mail server are reported', async () => {
  await refuses('ANY', 'fields', { ...fields, to: undefined }, 'E_FIELD_MISSING', /"to" is missing/);
  await refuses('ANY', 'fields', { ...fields, subject: undefined }, 'E_FIELD_MISSING', /"subject"/);
  const many = Array.from({ length: 51 }, (_, n) => `n${n}@example.net`);
  await refuses(
    'ANY',
    'fields',
    { ...fields, to: many },
    'E_TOO_MANY_RECIPIENTS',
    /50 recipients.*not to 51/,
  );
  const large = 'x'.repeat(5 * 2 ** 20);
  await refuses('ANY', 'fields', { ...fields, text: large }, 'E_CONTENT_TOO_LARGE', /5242880 bytes/);
  await refuses(
    'ANY',
    'raw',
    { from: fields.from, to: fields.to, raw: raw(head, large) },
    'E_CONTENT_TOO_LARGE',
    /5242880/,
  );
  await refuses(
    'ANY',
    'fields',
    { ...fields, to: 'nobody@example.net' },
    'E_DELIVERY_FAILED',
    /no such mailbox/,
  );
  const some = await send('ANY', 'fields', { ...fields, to: ['bob@example.net', 'nobody@example.net'] });
  assert.equal(some.code, 'E_DELIVERY_FAILED');
  assert.match(some.message!, /sent, but not to 1 of 2 recipients: .*no such mailbox/);
});

test('the rate limit stops an app that sends endlessly, and no other app', async () => {
  const fifty = Array.from({ length: 50 }, (_, n) => `n${n}@example.net`);
  await rpcOf(cellar)('previews.set', { id: 'mails', branches: true });
  const work = await cellar.checkout('mail');
  await cellar.git(work, 'push', cellar.remote('mails'), 'HEAD:refs/heads/draft');
  const body = JSON.stringify({ ...fields, to: fifty });
  const answerOf = async (slug: string, body: string) =>
    JSON.parse((await cellar.get(slug, '/ANY/fields', { method: 'POST', body })).text);
  /** Sends until the app is refused. On a busy machine, a minute of the limit may end between two messages. */
  const refusal = async () => {
    for (let n = 0; n < 6; n++) {
      const answer = await send('ANY', 'fields', { ...fields, to: fifty });
      if (answer.code !== undefined) return answer;
    }
    return assert.fail('the app was not refused');
  };
  const refused = await refusal();
  assert.equal(refused.code, 'E_RATE_LIMIT_EXCEEDED');
  assert.match(refused.message!, /120 e-mails a minute/);
  // The app is refused at 100 recipients, so it may not send to 21 more. A preview with a limit of its own may do so 5 times.
  const some = JSON.stringify({ ...fields, to: fifty.slice(0, 21) });
  let draft = await answerOf('draft--mails', some);
  for (let n = 1; n < 5 && draft.code === undefined; n++) {
    assert.equal((await refusal()).code, 'E_RATE_LIMIT_EXCEEDED');
    draft = await answerOf('draft--mails', some);
  }
  assert.equal(draft.code, 'E_RATE_LIMIT_EXCEEDED', 'a preview counts for its app');
  await cellar.deploy('others', 'mail');
  const answer = await answerOf('others', body);
  assert.ok(answer.messageId, answer.message);
});
