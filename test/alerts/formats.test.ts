// The formats of alert messages for chats, phones and e-mail.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type AlertFormat, formatOf } from '../../handlers/contract/telemetry/alert-format.ts';
import { Alerts } from '../../runtime/alerts/alerts.ts';
import { Deliveries } from '../../runtime/alerts/deliveries.ts';
import { mailOf, written } from '../../runtime/alerts/formats.ts';
import { PublicAddresses } from '../../runtime/isolation/private-networks.ts';
import { Mailer } from '../../runtime/mail/mail.ts';
import { smtpServer } from '../../runtime/mail/smtp-server.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { Receiver } from '../support/alerts/receiver.ts';
import { Inbox } from '../support/mail/inbox.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);

function world(t: TestContext, mailUrl: string | null = null) {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  store.apps.want({ id: APP, slug: 'shop', generation: 1 } as never);
  const describe = (id: string) => ({ id, slug: 'shop', url: 'http://shop.test' });
  const deployUrl = (slug: string, id: string) => `http://ui.test/apps/${slug}/deploys/${id}`;
  const alerts = new Alerts({ store, key: 'a key of this machine', describe, deployUrl });
  const mailer = new Mailer(mailUrl === null ? null : smtpServer(mailUrl), 'Cellar <cellar@example.com>');
  const deliveries = new Deliveries({
    ...{ alerts, store, mailer, ownerOf: () => 'ada' },
    reach: { addresses: new PublicAddresses(['127.0.0.1']), isLocalApp: () => false },
  });
  t.after(async () => {
    mailer.stop();
    await deliveries.stop();
    store.close();
  });
  return { store, alerts, deliveries };
}

const event = { kind: 'error', type: 'error.new', topic: 'e' } as const;

/** Sends one message in a format, and returns what a receiver gets. */
async function sent(t: TestContext, format: AlertFormat, message: string) {
  await using receiver = await Receiver.start();
  const { alerts, deliveries } = world(t);
  alerts.add(APP, { url: receiver.url, format });
  alerts.report(APP, { ...event, message });
  deliveries.tick();
  return await receiver.first(() => true);
}

test('Slack gets text in which nothing is a mention or a link', async (t) => {
  const { body, headers } = await sent(t, 'slack', '<!channel> a & b');
  assert.equal(headers['content-type'], 'application/json');
  assert.deepEqual(body, {
    text: '*shop: error new*\n&lt;!channel&gt; a &amp; b\nhttp://shop.test',
  });
});

test('Discord gets an embed without markup that mentions nobody', async (t) => {
  const { body } = await sent(t, 'discord', '@everyone [x](http://y) `z`');
  assert.deepEqual(body, {
    embeds: [
      {
        title: 'shop: error new',
        description: '@everyone \\[x\\]\\(http://y\\) \\`z\\`',
        url: 'http://shop.test',
      },
    ],
    allowed_mentions: { parse: [] },
  });
});

test('Discord gets a link in the text where it refuses the address as the link of an embed', () => {
  const embedOf = (url: string) => {
    const data = { app: { id: APP, slug: 'shop', url }, message: 'it ended', repeats: 0 };
    return JSON.parse(written('discord', JSON.stringify({ type: 'app.crashed', data })).body).embeds[0];
  };
  const title = 'shop: app crashed';
  for (const url of ['http://nas:8080/apps/shop', 'http://localhost:8080/'])
    assert.deepEqual(embedOf(url), { title, description: `it ended\n${url}` });
  for (const url of ['https://shop.example.com/', 'http://192.168.1.4:8080/', 'http://[::1]:8080/'])
    assert.deepEqual(embedOf(url), { title, description: 'it ended', url });
});

test('ntfy gets text with a title, short enough to be no attachment', async (t) => {
  const { text, headers } = await sent(t, 'ntfy', '💥'.repeat(1_500));
  assert.match(headers['content-type']!, /^text\/plain/);
  assert.deepEqual([headers.title, headers.click], ['shop: error new', 'http://shop.test']);
  assert.match(text, / …$/);
  assert.ok(Buffer.byteLength(text) < 4_096, String(Buffer.byteLength(text)));
});

test('Teams gets an adaptive card whose text has no markup', async (t) => {
  const { body } = await sent(t, 'teams', '[x](http://y)');
  assert.equal(body.type, 'message');
  const [{ contentType, content }] = body.attachments;
  assert.equal(contentType, 'application/vnd.microsoft.card.adaptive');
  assert.deepEqual(
    content.body.map((block: { inlines: { text: string }[] }) => block.inlines[0]!.text),
    ['shop: error new', '[x](http://y)'],
  );
  assert.deepEqual(content.actions, [
    { type: 'Action.OpenUrl', title: 'Open the app', url: 'http://shop.test' },
  ]);
});

test('a format is recognised from the address, and one that is set wins', () => {
  const cases = [
    ['https://hooks.slack.com/services/T/B/x', 'slack'],
    ['https://discord.com/api/webhooks/1/x', 'discord'],
    ['https://ntfy.sh/topic', 'ntfy'],
    ['https://contoso.webhook.office.com/webhookb2/x', 'teams'],
    ['https://prod-01.westus.logic.azure.com/workflows/x', 'teams'],
    ['https://hooks.slack.com.example.com/x', 'json'],
    ['https://example.com/hooks.slack.com', 'json'],
    ['mailto:ada@example.com', 'email'],
  ] as const;
  for (const [url, format] of cases) assert.equal(formatOf({ url, format: 'auto' }), format, url);
  assert.equal(formatOf({ url: 'https://chat.example.com/hook', format: 'slack' }), 'slack');
  assert.equal(formatOf({ url: 'https://ntfy.sh/topic', format: 'json' }), 'json');
});

test('earlier occurrences are named, and a deleted app has no address', () => {
  const text = JSON.stringify({
    type: 'app.crashed',
    data: { app: null, message: 'it ended', repeats: 3 },
  });
  assert.deepEqual(JSON.parse(written('slack', text).body), {
    text: '*Cellar: app crashed*\nit ended\nIt happened 3 times more since the last report.',
  });
});

test('an e-mail arrives; when the mail server refuses it, it is retried', async (t) => {
  const inbox = await Inbox.of(t);
  const { alerts, deliveries, store } = world(t, inbox.url);
  const { id } = alerts.add(APP, { url: 'mailto:ada@example.com' });
  alerts.report(APP, { ...event, message: 'TypeError: no cart' });
  deliveries.tick();
  await eventually(() => alerts.find(id)!.last_delivery !== null, 'the e-mail is sent');
  assert.equal(alerts.find(id)!.last_delivery!.error, null);
  const [mail] = inbox.received;
  assert.deepEqual(mail!.to, ['ada@example.com']);
  assert.match(mail!.text, /^Subject: shop: error new$/m);
  assert.match(mail!.text, /\n\nTypeError: no cart\n\nhttp:\/\/shop\.test\n\n/);
  const other = alerts.add(APP, { url: 'mailto:nobody@example.com' });
  alerts.report(APP, { ...event, topic: 'f', message: 'again' }, (alert) => alert.id === other.id);
  deliveries.tick();
  await eventually(() => alerts.find(other.id)!.last_delivery !== null, 'the e-mail is refused');
  assert.match(alerts.find(other.id)!.last_delivery!.error!, /no such mailbox/);
  assert.equal(store.alerts.firstDelivery(other.id)!.attempts, 1);
});

test('without a mail server the result says what to set', async (t) => {
  const { alerts, deliveries } = world(t);
  const { id } = alerts.add(APP, { url: 'mailto:ada@example.com' });
  assert.match((await deliveries.test(APP, id)).error!, /RUNNER_SMTP_URL/);
});

test('a failed deploy is linked in the control UI, in each format', async (t) => {
  const url = `http://ui.test/apps/shop/deploys/${'d'.repeat(16)}`;
  const { store, alerts } = world(t);
  const { id } = alerts.add(APP, { url: 'http://127.0.0.1:1/' });
  const deploy = { id: 'd'.repeat(16), app_id: APP, status: 'failed', error: 'no build', trigger: 'push' };
  store.transaction(() => store.outbox.add({ type: 'deploy', deploy } as never));
  const text = store.alerts.firstDelivery(id)!.body;
  assert.equal(JSON.parse(text).data.deploy.url, url);
  assert.match(mailOf('ada@example.com', text).text, new RegExp(`^no build\n\n${url}\n`));
  for (const format of ['slack', 'discord', 'teams', 'ntfy'] as const) {
    const { body, headers } = written(format, text);
    assert.ok((body + JSON.stringify(headers)).includes(url), format);
    assert.ok(!body.includes('http://shop.test'), format);
  }
});
