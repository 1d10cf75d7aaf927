// A session that ends while the page is open: unsaved text stays for the person who signs in again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, type Failure } from '../../../ui/api.ts';
import { resource } from '../../../ui/live.ts';
import { draftsOf, hasDrafts } from '../../../ui/models/drafts.ts';
import { isEnded, loadSession, type Session, session, watchSession } from '../../../ui/session.ts';
import { eventually } from '../../support/processes.ts';

test('a screen with unsaved text stays when the session ends, until somebody has signed in', async (t) => {
  const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  Object.assign(globalThis, { document: page });
  let account: { id: string } | null = { id: 'ada' };
  t.mock.method(globalThis, 'fetch', async (path: string) => {
    if (path === '/session') return Response.json({ account, mail: false, provider: null });
    if (account !== null) return Response.json({ result: 'read' });
    return Response.json({ error: { data: { status: 401, code: 'unauthorized', detail: '' } } });
  });
  watchSession();
  const asPerson = (id: string | null) => {
    account = id === null ? null : { id };
  };
  /** Makes the page visible again, and waits until it has read the session. */
  const look = (id: string) => {
    page.dispatchEvent(new Event('visibilitychange'));
    return eventually(() => session.value?.account.id === id && !isEnded.value, `${id} is signed in`);
  };
  const end = async () => {
    asPerson(null);
    await assert.rejects(api('apps.overview', {}), ({ code }: Failure) => code === 'signed_out');
  };
  const shown = () => [session.value?.account.id ?? null, isEnded.value];

  session.value = { account } as Session;
  await end();
  assert.deepEqual(shown(), [null, false], 'nothing is unsaved');
  await loadSession();
  assert.deepEqual(shown(), [null, false]);
  asPerson('ada');
  await look('ada');

  draftsOf('shop').write('a.ts', 'new', 'old');
  await end();
  assert.deepEqual(shown(), ['ada', true]);
  const read = resource((signal) => api('apps.overview', {}, { signal }));
  t.after(read.close);
  await eventually(() => read.failure.value?.code === 'signed_out', 'the read is refused');
  await loadSession();
  assert.deepEqual(shown(), ['ada', true], 'nobody has signed in yet');
  asPerson('ada');
  await loadSession();
  assert.deepEqual(shown(), ['ada', false]);
  await eventually(() => read.data.value !== null && read.failure.value === null, 'it is read again');
  assert.ok(hasDrafts());

  await end();
  asPerson('grace');
  await look('grace');
  assert.ok(!hasDrafts(), 'another person sees nothing of it');
});
