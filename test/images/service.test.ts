// The images service: fair shares of its time and memory, and bodies that never end.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import sharp from 'sharp';
import { Budget } from '../../runtime/app-services/budget.ts';
import { OutwardServices } from '../../runtime/apps/outward-services.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { AppServer } from '../../runtime/images/app-server.ts';
import { noCapacity } from '../../runtime/images/errors.ts';
import { fetchedAnswer } from '../../runtime/images/fetched.ts';
import { formOf } from '../../runtime/images/request.ts';
import { FairQueue } from '../../runtime/queues/fair-queue.ts';
import { listeningSocketOf, post } from '../support/app-socket.ts';
import { formWith, pixelsOf, plain } from '../support/images/forms.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const INFO = await formWith([await plain(30, 20, 'red')]);

test('the service starts with the first app, and answers like Cloudflare', async (t) => {
  const paths = layout(temporaryDirectory(t));
  const users = () => ({ build: null, cell: null });
  const services = new OutwardServices({ paths, users, ai: null, mail: null });
  t.after(() => services.close());
  const { images } = services.access('first');
  await images!.open();
  const info = await post(images!.socket, '/info', INFO);
  assert.equal(info.status, 200, info.text);
  assert.partialDeepStrictEqual(JSON.parse(info.text), { format: 'image/png', width: 30, height: 20 });
  const wrong = await post(images!.socket, '/info', await formWith([Buffer.from('text')]));
  assert.deepEqual([wrong.status, wrong.text.slice(0, 11)], [415, 'ERROR 9412:']);
  const noForm = await post(images!.socket, '/transform', { headers: {}, body: 'x' });
  assert.match(noForm.text, /^ERROR 9401: the request is not a form/);
  assert.match((await post(images!.socket, '/other', INFO)).text, /^ERROR 9401: \/other is not available/);
});

test('calls of one account wait behind each other, and those of another account do not', async (t) => {
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'image calls', running: 2, runningPerOwner: 1, waitingPerOwner: 3 });
  const serve = async (owner: string) => {
    const { handle, socket } = listeningSocketOf(t);
    const answerer = await AppServer.listen(handle, { owner, budget, queue });
    t.after(() => answerer.close());
    return () => post(socket, '/info', INFO);
  };
  const [greedy, modest] = [await serve('greedy'), await serve('modest')];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const held = queue.run({ owner: 'greedy' }, () => released);
  const waiting = [greedy(), greedy(), greedy()];
  await eventually(() => queue.waiting === 3, 'three calls wait');
  assert.match((await greedy()).text, /^ERROR 9522: at most 3 image calls of one account may wait/);
  assert.equal((await modest()).status, 200);
  release();
  await held;
  for (const { status } of await Promise.all(waiting)) assert.equal(status, 200);
});

test('a body is refused at its limit, and its memory is free again', async (t) => {
  const { handle, socket } = listeningSocketOf(t);
  const budget = new Budget(100 * 2 ** 20, noCapacity);
  const queue = new FairQueue({ name: 'image calls', running: 2, runningPerOwner: 1, waitingPerOwner: 3 });
  const answerer = await AppServer.listen(handle, { owner: 'one', budget, queue });
  t.after(() => answerer.close());
  const large = { headers: INFO.headers, body: new Uint8Array(33 * 2 ** 20) };
  assert.match((await post(socket, '/info', large)).text, /^ERROR 9402: the images of a call may have/);
  // A call whose body does not end keeps its memory until the client disconnects.
  const endless = request({ socketPath: socket, path: '/info', method: 'POST', headers: INFO.headers });
  endless.on('error', () => {});
  endless.write(new Uint8Array(31 * 2 ** 20));
  const held = budget.begin('one');
  await eventually(() => {
    const isFull = !held.take(20 * 2 ** 20);
    held.giveAll();
    return isFull;
  }, 'the endless call holds memory');
  endless.destroy();
  await eventually(() => {
    const probe = budget.begin('one');
    const isFree = probe.take(50 * 2 ** 20);
    probe.giveAll();
    return isFree;
  }, 'its memory is free again');
  assert.equal((await post(socket, '/info', INFO)).status, 200);
});

test('the automatic format of an animation is one with frames', async () => {
  const frames = await Promise.all(['red', 'blue'].map((color) => plain(40, 40, color)));
  const animation = () => sharp(frames, { join: { animated: true } });
  const typeOf = async (image: Buffer, options: object = {}) => {
    const form = new FormData();
    form.append('image', new Blob([new Uint8Array(image)]), 'image');
    form.append('options', JSON.stringify({ format: 'auto', ...options }));
    form.append('accept', 'image/avif,image/webp,*/*');
    return (await fetchedAnswer(form)).type;
  };
  for (const image of [await animation().gif().toBuffer(), await animation().webp().toBuffer()]) {
    assert.equal(await typeOf(image), 'image/webp');
    assert.equal(await typeOf(image, { anim: false }), 'image/avif');
  }
  const still = await sharp(frames[0]).webp().toBuffer();
  assert.equal(await typeOf(still), 'image/avif');
});

test('the background of a fetched image stays in a JPEG, and is white where it is transparent', async () => {
  const fetched = async (image: Buffer, options: object) => {
    const form = await formWith([image], { options: JSON.stringify(options) });
    const { bytes } = await fetchedAnswer(await formOf(Buffer.from(form.body), form.headers['content-type']));
    const { data } = await pixelsOf(bytes);
    return [...data.subarray(0, 3)].map((value) => Math.round(value / 8) * 8);
  };
  const clear = await plain(16, 16, 'transparent');
  assert.deepEqual(await fetched(clear, { background: 'red', format: 'jpeg' }), [256, 0, 0]);
  const photo = await sharp({ create: { width: 16, height: 16, channels: 3, background: 'blue' } })
    .jpeg()
    .toBuffer();
  const pad = { width: 64, height: 16, fit: 'pad' };
  assert.deepEqual(await fetched(photo, { ...pad, background: 'transparent' }), [256, 256, 256]);
  assert.deepEqual(await fetched(photo, { ...pad, background: 'red' }), [256, 0, 0]);
});

test('wrong options of a fetched image are refused by name', async (t) => {
  const { handle, socket } = listeningSocketOf(t);
  const budget = new Budget(100 * 2 ** 20, noCapacity);
  const queue = new FairQueue({ name: 'image calls', running: 2, runningPerOwner: 1, waitingPerOwner: 3 });
  const answerer = await AppServer.listen(handle, { owner: 'one', budget, queue });
  t.after(() => answerer.close());
  const image = await plain(30, 20, 'red');
  const fetched = async (options: string) => post(socket, '/fetched', await formWith([image], { options }));
  assert.equal((await fetched('{"width":10}')).status, 200);
  // Nested so deeply that a recursive check would overflow the stack.
  assert.equal((await fetched(`${'{"trim":'.repeat(7_000)}{}${'}'.repeat(7_000)}`)).status, 200);
  const wrong: [options: string, field: string][] = [
    ['[]', ''],
    ['null', ''],
    ['{"width":"auto"}', 'width: '],
    ['{"width":2000,"dpr":10}', 'width: '],
    ['{"dpr":1e9}', 'dpr: '],
    ['{"format":"__proto__"}', 'format: '],
    ['{"quality":"best"}', 'quality: '],
    ['{"background":"url(http://x)"}', 'background: '],
    ['{"draw":[{"url":"http://x"}]}', 'draw: '],
    ['{"segment":"foreground"}', 'segment: '],
  ];
  for (const [options, field] of wrong)
    assert.match((await fetched(options)).text, new RegExp(`^ERROR 9401: cf.image: ${field}`), options);
  assert.match((await fetched('{')).text, /^ERROR 9401: the operations are not JSON/);
  assert.match((await fetched(`"${'x'.repeat(70_000)}"`)).text, /^ERROR 9401: the operations may have/);
});
