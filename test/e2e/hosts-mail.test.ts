// E-mails that one host receives for apps of another.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTransport } from 'nodemailer';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts } from '../support/hosts/hosts.ts';
import { Inbox } from '../support/mail/inbox.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

const DEADLINE_MS = 30_000;
const inbox = await Inbox.start();
const port = ownPort();
let hosts: Hosts;
let id = '';
/** Id of the host that listens on the port for e-mails, and of the other host. */
let [receiving, other]: string[] = [];

const rpc = (name: string, body: object) => rpcOf(hosts.all[0]!)(name, body);
const send = (to: string) =>
  createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } }).sendMail({
    from: 'ann@example.org',
    to,
    subject: 'Hello',
    text: 'Hi',
  });
const homeOf = async () => (await rpc('apps.get', { id })).home.id;
const moveTo = async (host: string) => {
  if ((await homeOf()) === host) return;
  const moved = async () => (await rpc('apps.move', { id, host })).code === undefined;
  await eventually(moved, 'the app moves', DEADLINE_MS);
  assert.equal(await homeOf(), host);
};
const received = async () => JSON.parse((await hosts.all[0]!.get('mails')).text);

before(async () => {
  // Both hosts try to listen on the port, and only one gets it. The other serves without.
  hosts = await Hosts.start(2, {
    RUNNER_STORAGE: 'bucket',
    RUNNER_MAIL_PORT: String(port),
    RUNNER_SMTP_URL: inbox.url,
    RUNNER_SMTP_FROM: 'cellar@example.com',
    RUNNER_SMTP_APP_SENDERS: 'mails.localhost',
  });
  const { items } = await rpc('hosts.list', {});
  [receiving, other] = items.map(({ id }: { id: string }) => id);
  await eventually(
    async () => hosts.all.some(({ output }) => output.includes('e-mails for apps cannot be received')),
    'one host says that the port is in use',
  );
  id = await hosts.all[0]!.deploy('mails', 'mail-in');
});
after(async () => {
  await hosts[Symbol.asyncDispose]();
  await inbox.close();
});

test('an app gets its e-mails at each host, forwards and refuses them, and keeps its addresses when it moves', async () => {
  let isKnownBefore = false;
  for (const host of [receiving!, other!, receiving!]) {
    await moveTo(host);
    // The address must work at once after a move.
    if (isKnownBefore) await send('info@mails.localhost');
    isKnownBefore = true;
    await rpc('mail.routes.set', { id, address: 'info@mails.localhost' });
    await rpc('mail.routes.set', { id, address: 'forward@mails.localhost' });
    const arrives = (address: string) => async () =>
      send(address).then(
        () => true,
        () => false,
      );
    await eventually(arrives('info@mails.localhost'), 'the receiving host knows the address', DEADLINE_MS);
    const { to, raw } = (await received()).at(-1);
    assert.equal(to, 'info@mails.localhost');
    assert.match(raw, /\r\n\r\nHi\r\n$/);
    await eventually(arrives('forward@mails.localhost'), 'it knows the other one too', DEADLINE_MS);
    assert.equal(inbox.received.at(-1)!.from, 'forward@mails.localhost');
    await assert.rejects(send('no@mails.localhost'), /550 5\.1\.1/);
    await rpc('mail.routes.delete', { id, address: 'forward@mails.localhost' });
    const isRefused = () =>
      send('forward@mails.localhost').then(
        () => false,
        (error) => /550 5\.1\.1/.test(error.message),
      );
    await eventually(isRefused, 'a deleted address is refused', DEADLINE_MS);
  }
});
