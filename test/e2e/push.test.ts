// First steps of a new user: create an app, push, follow the deploy, get an answer, push again.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { uuidOf } from '../../handlers/contract/id.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { EventReader, type SentEvent } from '../support/handlers/events-source.ts';
import { eventually, processes } from '../support/processes.ts';

// The files of this group make more apps than the default quota allows.
const cellar = sharedCellar('code');

/** Opens a WebSocket to a chat room. `next` resolves with the first message, old or new, that matches. */
async function enter(room: string) {
  const socket = cellar.webSocket('chat', `/rooms/${room}/socket`);
  const messages: string[] = [];
  socket.addEventListener('message', ({ data }) => messages.push(String(data)));
  await once(socket, 'open', { signal: AbortSignal.timeout(60_000) });
  const next = async (pattern: RegExp) => {
    await eventually(() => messages.some((message) => pattern.test(message)), `a message like ${pattern}`);
    return messages.find((message) => pattern.test(message))!;
  };
  return { socket, next };
}

interface Shown {
  id?: string;
  status?: string;
  finished_at?: string | null;
  lines?: string[];
}
const shown = ({ data }: SentEvent) => JSON.parse(data!) as Shown;

test('a pushed Worker answers, its push shows each step, and a second push changes the answer', async () => {
  const id = await cellar.create('hello');
  assert.equal((await cellar.get('hello')).status, 404);
  const work = await cellar.checkout('hello');
  const first = await cellar.push(work, 'hello');
  assert.equal(first.code, 0, first.stderr);
  for (const step of ['checkout', 'bundle', 'release', 'start']) {
    assert.match(first.stderr, new RegExp(`remote: ▸ ${step}:`), step);
  }
  assert.match(first.stderr, new RegExp(`remote: http://hello.localhost:${cellar.edgePort}`));
  const answer = await cellar.get('hello');
  assert.equal(answer.status, 200);
  assert.ok(answer.headers.get('x-request-id'));

  const app = (await cellar.call('GET', `/v1/apps/${id}`)).body;
  assert.equal(app.status, 'running');
  const deploys = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  assert.equal(deploys.length, 1);
  assert.equal(deploys[0].status, 'live');
  assert.equal(deploys[0].id, app.live_deploy_id);
  assert.equal(deploys[0].message, 'first');
  const log = await cellar.call('GET', `/v1/apps/${id}/deploys/${deploys[0].id}/log`);
  assert.match(log.body.log, /▸ bundle:/);

  writeFileSync(join(work, 'index.js'), "export default { fetch: () => new Response('changed') };\n");
  await cellar.commit(work, 'second');
  const second = await cellar.push(work, 'hello');
  assert.equal(second.code, 0, second.stderr);
  assert.equal((await cellar.get('hello')).text, 'changed');
});

test('a Worker that does not bundle, or throws when it loads, fails with file and line; the old one serves on', async () => {
  const id = await cellar.create('broken');
  const work = await cellar.checkout('hello');
  const entry = join(work, 'index.js');
  writeFileSync(entry, "export default { fetch: () => new Response('good') };\n");
  await cellar.commit(work, 'good');
  await cellar.push(work, 'broken');

  writeFileSync(entry, 'export default { fetch() { return new Response( };\n');
  await cellar.commit(work, 'syntax');
  const syntax = await cellar.push(work, 'broken');
  assert.match(syntax.stderr, /index\.js:1:\d+/);
  assert.match(syntax.stderr, /deploy failed/);
  assert.equal((await cellar.get('broken')).text, 'good');

  writeFileSync(entry, "\nthrow new Error('no cake');\nexport default { fetch: () => new Response('') };\n");
  await cellar.commit(work, 'throws');
  const throws = await cellar.push(work, 'broken');
  assert.match(throws.stderr, /no cake at index\.js:2:7/);
  assert.equal((await cellar.get('broken')).text, 'good');

  const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
  assert.deepEqual(
    items.map(({ status }: { status: string }) => status),
    ['failed', 'failed', 'live'],
  );
  assert.match(items[0].error, /no cake/);
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'running');
});

test('the guestbook keeps its entries in D1 across deploys and a failed migration', async () => {
  await cellar.create('guestbook');
  const work = await cellar.checkout('guestbook');
  const pushed = await cellar.push(work, 'guestbook');
  assert.equal(pushed.code, 0, pushed.stderr);
  const post = (body: unknown) =>
    cellar.get('guestbook', '/entries', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  assert.equal((await post({ name: 'Ada', message: 'Hello there' })).status, 201);
  await cellar.commit(work, 'again');
  await cellar.push(work, 'guestbook');
  assert.match((await cellar.get('guestbook', '/entries')).text, /Hello there/);

  writeFileSync(
    join(work, 'migrations/0099_bad.sql'),
    'CREATE TABLE half (id INTEGER); INSERT INTO nowhere VALUES (1);',
  );
  await cellar.commit(work, 'bad migration');
  const bad = await cellar.push(work, 'guestbook');
  assert.match(bad.stderr, /0099_bad\.sql.*nowhere/s);
  assert.match((await cellar.get('guestbook', '/entries')).text, /Hello there/);
});

test('the chat room carries messages between WebSockets and keeps them over a deploy', async () => {
  await cellar.create('chat');
  const work = await cellar.checkout('chat');
  assert.equal((await cellar.push(work, 'chat')).code, 0);
  const ada = await enter('lobby');
  const bob = await enter('lobby');
  ada.socket.send('Hello Bob');
  assert.match(await bob.next(/Hello Bob/), /Hello Bob/);
  const closed = once(bob.socket, 'close');
  await cellar.commit(work, 'again');
  assert.equal((await cellar.push(work, 'chat')).code, 0);
  assert.equal(((await closed) as [{ code: number }])[0].code, 1012);
  const eve = await enter('lobby');
  assert.match(await eve.next(/Hello Bob/), /Hello Bob/);
});

test('a static site serves its files and its own 404 page', async () => {
  await cellar.create('site');
  const work = await cellar.checkout('site');
  const pushed = await cellar.push(work, 'site');
  assert.equal(pushed.code, 0, pushed.stderr);
  const index = await cellar.get('site');
  assert.equal(index.status, 200);
  assert.match(index.headers.get('content-type')!, /text\/html/);
  assert.equal((await cellar.get('site', '/nowhere')).status, 404);
});

test('a single-page app is built, serves its page at any path, and its Worker answers below /api', async () => {
  await cellar.create('spa');
  const work = await cellar.checkout('spa');
  const pushed = await cellar.push(work, 'spa');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.match(pushed.stderr, /remote: ▸ build:/);
  assert.match((await cellar.get('spa', '/some/route')).text, /<script[^>]+src=/);
  assert.match((await cellar.get('spa', '/api/time')).headers.get('content-type')!, /json/);
});

test('a Worker gets its version from the version binding', async () => {
  const id = await cellar.create('bindings');
  const work = await cellar.checkout('bindings');
  const pushed = await cellar.push(work, 'bindings');
  assert.equal(pushed.code, 0, pushed.stderr);
  const version = async () => JSON.parse((await cellar.get('bindings', '/version')).text);
  const live = async () => {
    const [newest] = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
    assert.equal(newest.status, 'live');
    return newest.version.id;
  };
  const first = await version();
  assert.deepEqual(first, { id: uuidOf(await live()), tag: '', timestamp: first.timestamp });
  assert.ok(Math.abs(Date.now() - Date.parse(first.timestamp)) < 120_000, first.timestamp);
  await cellar.commit(work, 'again');
  await cellar.push(work, 'bindings');
  const second = await version();
  assert.equal(second.id, uuidOf(await live()));
  assert.notEqual(second.id, first.id);
  assert.ok(second.timestamp > first.timestamp);
});

test('a rate limit counts a key over all bindings of the same namespace', async () => {
  const limit = async (binding: string, key: string) => {
    const answer = await cellar.get('bindings', `/limit/${binding}?${key}`);
    return JSON.parse(answer.text).success;
  };
  const minute = () => Math.floor(Date.now() / 60_000);
  let answers: boolean[];
  let from: number;
  do {
    from = minute();
    const key = `in-${from}`;
    answers = [];
    for (const binding of ['LIMIT', 'SAME', 'LIMIT', 'LIMIT', 'SAME'])
      answers.push(await limit(binding, key));
    answers.push(await limit('LIMIT', `${key}-other`));
  } while (minute() !== from);
  assert.deepEqual(answers, [true, true, true, false, false, true]);
  assert.equal(await limit('OLDER', 'a'), true);
});

test('git, the log and the stream show each line at once, and the stream resumes after its last event', async () => {
  const id = await cellar.create('followed');
  const work = await cellar.checkout('hello');
  const build = 'echo before; while [ ! -e go ]; do sleep 0.02; done; seq 300; echo after';
  writeFileSync(join(work, 'package.json'), JSON.stringify({ scripts: { build } }));
  await cellar.commit(work, 'slow');
  const follow = (headers: Record<string, string> = {}) =>
    EventReader.open(`${cellar.api}/v1/apps/${id}/deploys/stream`, {
      headers: { authorization: `Bearer ${cellar.token}`, ...headers },
    });
  const received: SentEvent[] = [];
  const readUntil = async (reader: EventReader, end: (event: Shown) => boolean) => {
    do received.push(...(await reader.take(1)));
    while (!end(shown(received.at(-1)!)));
    reader.close();
  };

  const first = await follow();
  const printed = join(cellar.directory, 'printed');
  const push = `alias.watched=!git push "${cellar.remote('followed')}" HEAD:main 2> ${printed}`;
  const pushed = cellar.git(work, '-c', push, 'watched');
  await readUntil(first, ({ lines }) => lines?.includes('before') === true);
  const deployId = received.map(shown).find(({ status }) => status === 'building')!.id;
  const log = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys/${deployId}/log`)).body;
  await eventually(async () => /^before$/m.test((await log()).log), 'the line is in the log');
  assert.equal((await log()).status, 'building');
  assert.doesNotMatch((await log()).log, /^after$/m);
  await eventually(() => /^remote: before/m.test(readFileSync(printed, 'utf8')), 'the pusher reads the line');

  // The build waits for this file in its own directory, because its sandbox has no other one.
  const [project] = globSync(join(cellar.data, 'builds/*/**/package.json'));
  writeFileSync(join(dirname(project!), 'go'), '');
  await readUntil(
    await follow({ 'last-event-id': received.at(-1)!.id! }),
    ({ finished_at }) => finished_at != null,
  );
  assert.equal((await pushed).code, 0);
  assert.match(readFileSync(printed, 'utf8'), /^remote: before\s[\s\S]*^remote: after\s/m);
  assert.deepEqual(
    received.map(({ id }) => Number(id)),
    received.map((_, n) => n + 1),
  );
  assert.ok(received.every((event) => event.event === (shown(event).lines ? 'log' : undefined)));
  const lines = received.flatMap((event) => shown(event).lines ?? []);
  assert.equal(lines.map((line) => `${line}\n`).join(''), (await log()).log);
});

test('a push deploys an app whose binding needs an operator setting, and names the setting', async () => {
  await cellar.deploy('asks', 'ai');
  const asked = await cellar.get('asks', '/run/any', { method: 'POST', body: '{"prompt":"a"}' });
  assert.match(JSON.parse(asked.text).message, /^3043: This Cellar has no AI server\. .*RUNNER_AI_URL/);
  await cellar.deploy('mails', 'mail');
  const fields = { from: 'shop@example.com', to: 'bob@example.net', subject: 'Order', text: 'On its way.' };
  const sent = await cellar.get('mails', '/ANY/fields', { method: 'POST', body: JSON.stringify(fields) });
  assert.match(JSON.parse(sent.text).message, /names one with RUNNER_SMTP_URL and RUNNER_SMTP_FROM/);
});

test('deleting an app ends its build, and leaves no process and no file', async () => {
  const id = await cellar.create('leaving');
  const work = await cellar.checkout('hello');
  const build =
    'mkdir -p $npm_config_cache && echo > $npm_config_cache/x && echo begun && exec sleep 7654.75';
  writeFileSync(join(work, 'package.json'), JSON.stringify({ scripts: { build } }));
  await cellar.commit(work, 'slow');
  const first = cellar.push(work, 'leaving');
  const deploys = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  await eventually(async () => {
    const [deploy] = await deploys();
    const log = deploy && (await cellar.call('GET', `/v1/apps/${id}/deploys/${deploy.id}/log`));
    return /^begun$/m.test(log?.body.log ?? '');
  }, 'the build runs');
  await cellar.commit(work, 'behind it');
  const second = cellar.push(work, 'leaving');
  await eventually(async () => (await deploys()).length === 2, 'the second push waits');

  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  for (const { stderr } of await Promise.all([first, second]))
    assert.match(stderr, /remote: deploy failed: the app was deleted/);
  await eventually(
    () => !processes().some(({ command }) => command.includes('7654.75')),
    'the build has gone',
  );
  await eventually(
    () =>
      ['caches', 'releases'].every((place) => !existsSync(join(cellar.data, place, id))) &&
      readdirSync(join(cellar.data, 'builds')).length === 0,
    'nothing of the build is left',
  );
});

test('a push to a slug that no app has makes the app, while the base domain is localhost', async () => {
  const work = await cellar.checkout('hello');
  const pushed = await cellar.push(work, 'brand-new');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.equal((await cellar.get('brand-new')).status, 200);
  await cellar.call('POST', '/v1/apps/brand-new/rename', { slug: 'renamed' });
  const again = await cellar.push(work, 'brand-new');
  assert.notEqual(again.code, 0);
  assert.match(again.stderr, /The app brand-new is called renamed now: `git remote set-url/);
});
