// How the control plane parses a push: it reads the commands in any encoding, and not the pack after them.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { request } from 'undici';
import { API_KEY, TestControl } from '../../support/handlers/control.ts';
import { eventually } from '../../support/processes.ts';

const NONE = '0'.repeat(40);
const OLD = 'a'.repeat(40);
const NEW = 'b'.repeat(40);
const PUSHER = 'cellar_key-of-pusher';
const CAPABILITIES = '\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
  const { id } = await control.create('repository');
  const database = await control.database();
  const hash = createHash('sha256').update(PUSHER).digest('hex');
  const insert = (sql: string, ...values: string[]) =>
    database
      .prepare(sql)
      .bind(...values)
      .run();
  await insert("INSERT INTO accounts (id, name, role, created_at) VALUES ('pusher', 'pusher', 'member', '')");
  await insert(
    "INSERT INTO keys (id, account_id, name, hash, created_at) VALUES ('pusher', 'pusher', '', ?, '')",
    hash,
  );
  await insert("INSERT INTO collaborators VALUES (?, 'pusher', 'push', '')", id);
});
after(() => control.stop());

function line(text: string): string {
  return (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;
}

function commands(...list: [before: string, after: string, ref: string][]): string {
  const lines = list.map(([old, next, ref], n) =>
    line(`${old} ${next} ${ref}${n === 0 ? CAPABILITIES : ''}`),
  );
  return `${lines.join('')}0000`;
}

/** Pushes a body. A list of chunks is sent with chunked encoding. */
async function push(
  body: Buffer | string | Buffer[] | Readable,
  headers: Record<string, string> = {},
  key = PUSHER,
  { url } = control,
) {
  const response = await request(`${url}/v1/git/repository/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${btoa(`git:${key}`)}`,
      'content-type': 'application/x-git-receive-pack-request',
      ...headers,
    },
    body: Array.isArray(body) ? Readable.from(body) : body,
  });
  return { status: response.statusCode, text: await response.body.text() };
}

const PACK = Buffer.from(`PACK${'x'.repeat(300_000)}`);
const received = () => Buffer.from(control.host.sent.at(-1)!.body);

test('a push that creates and updates is forwarded whole, plain, chunked and gzipped', async () => {
  const head = commands(
    [NONE, NEW, 'refs/heads/main'],
    [OLD, NEW, 'refs/heads/side'],
    [NONE, NEW, 'refs/tags/v1'],
  );
  const body = Buffer.concat([Buffer.from(head), PACK]);
  assert.equal((await push(body)).status, 200);
  assert.deepEqual(received(), body);

  const bytewise = [...Buffer.from(head)].map((byte) => Buffer.of(byte));
  assert.equal((await push([...bytewise, PACK])).status, 200);
  assert.deepEqual(received(), body);

  for (const coding of ['gzip', 'x-gzip']) {
    const packed = gzipSync(body);
    const before = control.host.sent.length;
    assert.equal((await push(packed, { 'content-encoding': coding })).status, 200);
    assert.equal(control.host.sent.length, before + 1);
    assert.equal(control.host.sent.at(-1)!.headers['content-encoding'], coding);
    assert.equal(control.host.sent.at(-1)!.headers['content-length'], String(packed.length));
  }
  const split = gzipSync(body);
  const pieces = Array.from({ length: split.length }, (_, n) => split.subarray(n, n + 1));
  assert.equal((await push(pieces, { 'content-encoding': 'gzip' })).status, 200);
});

test('a deletion, or a moved tag, needs admin, at any position and in any coding', async () => {
  const sent = control.host.sent.length;
  const refused = [
    commands([OLD, NONE, 'refs/heads/side']),
    commands([NONE, NEW, 'refs/heads/main'], [OLD, NONE, 'refs/tags/v1']),
    commands([OLD, NEW, 'refs/tags/v1']),
    line(`shallow ${OLD}\n`) + commands([OLD, NONE, 'refs/heads/main']),
  ];
  for (const body of refused) {
    for (const answer of [await push(body), await push(gzipSync(body), { 'content-encoding': 'gzip' })]) {
      assert.equal(answer.status, 200);
      const shown = answer.text.replaceAll('\x01', '|');
      assert.match(shown, /^0013\|000eunpack ok\n[\s\S]*ng refs\/\S+ (deleting|moving)[\s\S]*\|00000000$/);
    }
    assert.equal(
      (await push(body.replace('report-status-v2', 'report-nothing-x'))).status,
      403,
      'no report was asked for',
    );
  }
  assert.equal(control.host.sent.length, sent, 'the host was not asked');
  for (const body of refused) assert.equal((await push(body, {}, API_KEY)).status, 200, 'an admin may');
});

test('a branch name with more than 50 parts is refused for every role, but such a branch can be deleted', async () => {
  const name = (parts: number) => `refs/heads/${'d/'.repeat(parts - 3)}x`;
  const deep = commands([NONE, NEW, 'refs/heads/main'], [NONE, NEW, name(51)]);
  const sent = control.host.sent.length;
  for (const key of [PUSHER, API_KEY]) {
    const { text } = await push(deep, {}, key);
    assert.match(text, /ng refs\/heads\/d\S+ its name may have at most 50 parts between slashes\n/);
    const old = await push(deep.replace('report-status-v2', 'report-nothing-x'), {}, key);
    assert.equal(old.status, 403);
    assert.match(old.text, /The push is refused: its name may have at most 50 parts/);
  }
  assert.equal(control.host.sent.length, sent, 'the host was not asked');
  assert.equal((await push(commands([NONE, NEW, name(50)]))).status, 200);
  assert.equal((await push(commands([OLD, NONE, name(120)]), {}, API_KEY)).status, 200);
  assert.equal(control.host.sent.length, sent + 2);
});

test('a push that cannot be parsed is refused; an empty probe is forwarded', async () => {
  assert.equal((await push('0000')).status, 200);
  assert.equal(received().toString(), '0000');
  const strange = [
    '',
    '000',
    'zzzz',
    '0001',
    '0004',
    line('push-cert\0'),
    line(`${OLD} ${NEW}`),
    line(`${OLD} ${NEW} refs/heads/main`),
    `${line(`${OLD} ${NEW} refs/heads/main${CAPABILITIES}`)}ffff`,
  ];
  for (const body of strange) assert.equal((await push(body)).status, 403, body);
  const valid = commands([NONE, NEW, 'refs/heads/main']);
  assert.equal((await push(valid, { 'content-encoding': 'gzip' })).status, 403, 'not gzip at all');
  assert.equal((await push(valid, { 'content-encoding': 'br' })).status, 403);
  const endless = line(`${NONE} ${NEW} refs/heads/${'x'.repeat(60_000)}`).repeat(80);
  assert.equal((await push(endless)).status, 403);
  assert.equal((await push(gzipSync(endless), { 'content-encoding': 'gzip' })).status, 403);
  assert.equal(
    (await push(endless, {}, API_KEY)).status,
    403,
    'nor may an admin have git keep so much in memory',
  );
  const packed = gzipSync(`${endless.repeat(20)}0000`);
  assert.equal((await push(packed, { 'content-encoding': 'gzip' }, API_KEY)).status, 403);
  const large = Buffer.concat([Buffer.from('zzzz'), Buffer.alloc(40_000_000)]);
  assert.equal((await push(large)).status, 403, 'a large body is read to its end, and its refusal heard');
});

test('a push ends when its sender loses the role or the key before the last byte', async () => {
  const head = Buffer.from(commands([NONE, NEW, 'refs/heads/late'], [NONE, NEW, 'refs/heads/later']));
  const half = PACK.length / 2;
  const { id } = await control.call('apps.get', { id: 'repository' });
  const key = await control.call('keys.create', { account: 'pusher' });
  const chunked = {};
  const whole = { 'content-length': String(head.length + PACK.length) };
  const remove = () => control.call('collaborators.remove', { id, account: 'pusher' });
  const lower = () => control.call('collaborators.set', { id, account: 'pusher', role: 'view' });
  const revoke = () => control.call('keys.revoke', { id: key.id });
  for (const [headers, take, reason] of [
    [chunked, remove, 'The account of this API key has no role on the app.'],
    [whole, remove, 'The account of this API key has no role on the app.'],
    [whole, lower, 'This operation needs the role push on the app; your role is view.'],
    [chunked, revoke, 'The API key is wrong.'],
  ] as const) {
    await control.call('collaborators.set', { id, account: 'pusher', role: 'push' });
    const { begun, sent } = control.host;
    const before = sent.length;
    const taken = Promise.withResolvers<void>();
    async function* body() {
      yield Buffer.concat([head, PACK.subarray(0, half)]);
      await taken.promise;
      yield PACK.subarray(half);
    }
    const answer = push(Readable.from(body()), headers, key.key);
    await eventually(() => control.host.begun > begun, 'the push reaches the host');
    await take();
    taken.resolve();
    const { status, text } = await answer;
    assert.equal(status, 200, text);
    for (const ref of ['late', 'later'])
      assert.ok(
        text.includes(`ng refs/heads/${ref} Your rights changed before the end of the request. ${reason}\n`),
        text,
      );
    const isPart = ({ body }: { body: string }) => body.length < head.length + PACK.length;
    assert.ok(sent.slice(before).every(isPart), 'the host has no whole push');
  }
});

test('a push goes on after a failed check of its rights, and ends with the reason when all checks fail', async () => {
  const outside = await TestControl.start({ RUNNER_UI_URL: 'http://ui.example' });
  try {
    const { host } = outside;
    await outside.create('repository');
    const { id: account } = await outside.call('accounts.create', { name: 'one', email: 'one@example.com' });
    const head = Buffer.from(commands([NONE, NEW, 'refs/heads/long']));
    for (const [failed, refusal] of [
      [1, null],
      [Number.POSITIVE_INFINITY, 'ng refs/heads/long The control UI did not confirm the API key;'],
    ] as const) {
      let left = 0;
      Object.defineProperty(host, 'controlUi', {
        configurable: true,
        get: () => (left-- > 0 ? [500, {}] : [200, { user_id: 'u', role: 'push' }]),
      });
      const key = await outside.call('keys.create', { account });
      const { length } = host.sent;
      const lost = Promise.withResolvers<void>();
      async function* body() {
        yield Buffer.concat([head, PACK.subarray(0, PACK.length / 2)]);
        await lost.promise;
        yield PACK.subarray(PACK.length / 2);
      }
      const { begun } = host;
      const answer = push(Readable.from(body()), {}, 'any', outside);
      await eventually(() => host.begun > begun + 1, 'the push reaches the host');
      left = failed;
      await outside.call('keys.revoke', { id: key.id });
      lost.resolve();
      const { status, text } = await answer;
      assert.equal(status, 200, text);
      assert.ok(text.includes(refusal ?? 'refs/heads/long'), text);
      const isWhole = ({ body }: { body: string }) => body.endsWith(PACK.toString('utf8'));
      assert.equal(host.sent.slice(length).some(isWhole), refusal === null);
    }
  } finally {
    await outside.stop();
  }
});
