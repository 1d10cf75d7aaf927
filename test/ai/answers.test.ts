// Answers of an AI server, as apps get them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StreamTranslator, wholeAnswer } from '../../runtime/ai/answers.ts';
import { callOf, serialize } from '../../runtime/ai/calls.ts';

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

test('the response is an object where the app asked for JSON, and the text where it is none', () => {
  const answered = (content: string, format?: object) => {
    const call = serialize(callOf('m', { prompt: 'x', ...(format && { response_format: format }) }));
    const answer = { choices: [{ index: 0, message: { role: 'assistant', content } }] };
    const { response, choices } = JSON.parse(wholeAnswer(call, JSON.stringify(answer)));
    assert.deepEqual(choices, answer.choices);
    return response;
  };
  const json = '{"name":"India"}';
  const schema = { type: 'json_schema', json_schema: { type: 'object' } };
  for (const format of [schema, { type: 'json_object' }]) {
    assert.deepEqual(answered(json, format), { name: 'India' });
    assert.equal(answered('{"name":"In', format), '{"name":"In');
  }
  for (const format of [undefined, { type: 'text' }]) assert.equal(answered(json, format), json);
});
