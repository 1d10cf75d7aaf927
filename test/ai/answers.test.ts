// Streamed answers of an AI server, as apps get them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StreamTranslator } from '../../runtime/ai/answers.ts';

test('a streamed event has its text once, for clients that add up response and choices', () => {
  const choices = [{ index: 0, delta: { content: 'Hello', role: 'assistant' }, finish_reason: null }];
  const event = new StreamTranslator().write(
    Buffer.from(`data: ${JSON.stringify({ id: 'a', choices })}\n\n`),
  );
  assert.deepEqual(JSON.parse(event.slice('data: '.length)), {
    response: 'Hello',
    id: 'a',
    choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }],
  });
});

test('a last line that ends without a newline is sent too', () => {
  const translator = new StreamTranslator();
  assert.equal(translator.write(Buffer.from('data: [DONE]')), '');
  assert.equal(translator.end(), 'data: [DONE]\n\n');
});
