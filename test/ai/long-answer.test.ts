// An AI server that answers late. The HTTP client must not have its real timer yet, so the file has only this test.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { ask } from '../../runtime/ai/upstream.ts';
import { AI_KEY, AiServer } from '../support/ai/server.ts';

/** Ticks of the HTTP client in 6 minutes. It counts time in ticks of half a second. */
const TICKS = 2 * 60 * 6;

test('the AI server may take longer than five minutes, the timeout of the HTTP client', async (t) => {
  await using upstream = await new AiServer().start();
  const ticks: (() => void)[] = [];
  const collect = (tick: () => void) => {
    ticks.push(tick);
    return { unref() {} };
  };
  t.mock.method(globalThis, 'setTimeout', collect as unknown as typeof setTimeout);
  const asked = once(upstream.events, 'asked');
  const body = JSON.stringify({ model: 'slow', messages: [{ role: 'user', content: 'hi' }] });
  const answer = ask(
    { url: upstream.url, key: AI_KEY, models: {} },
    {
      kind: 'chat',
      path: '/chat/completions',
      model: 'slow',
      isStream: false,
      asksJson: false,
      body: Buffer.from(body),
    },
    new AbortController().signal,
  );
  await asked;
  for (let count = 0; count < TICKS; count++) ticks.shift()?.();
  upstream.letGo();
  assert.equal((await answer).status, 200);
});
