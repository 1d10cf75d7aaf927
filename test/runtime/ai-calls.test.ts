// Apps' requests to the AI server, in its own format: none may make it fetch an address.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf } from '../../runtime/ai/calls.ts';

const DATA = 'data:image/png;base64,AAAA';

/** Returns a conversation with one part besides text. */
const chat = (part: object) => ({
  messages: [{ role: 'user', content: [{ type: 'text', text: 'http://10.0.0.1/' }, part] }],
});

test('images and files must be data: URLs, and the AI server gets no address to fetch', () => {
  const inside = 'http://169.254.169.254/latest/meta-data/';
  const asked = [
    chat({ type: 'image_url', image_url: { url: inside } }),
    chat({ type: 'image_url', image_url: inside }),
    chat({ type: 'video_url', video_url: { url: 'file:///etc/passwd' } }),
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: inside }] }] },
    { input: [{ role: 'user', content: [{ type: 'input_file', file_url: inside }] }] },
    { input: 'x', tools: [{ type: 'mcp', server_label: 'x', server_url: inside }] },
  ];
  for (const inputs of asked)
    assert.throws(() => callOf('m', inputs), { status: 400, message: /_url must be a data: URL/ });
  for (const inputs of [
    chat({ type: 'image_url', image_url: { url: DATA } }),
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: DATA }] }] },
    // The parameters of a function may have any names.
    {
      prompt: 'x',
      tools: [{ name: 'f', parameters: { properties: { image_url: { type: 'string', description: 'x' } } } }],
    },
  ])
    assert.equal(callOf('m', inputs).body.model, 'm');
});

test('apps can use neither stored objects nor background work of the AI server', () => {
  const function_ = { type: 'function', name: 'f', parameters: {} };
  const call = callOf('m', { input: 'x', store: true, tools: [function_] });
  assert.deepEqual(
    [call.path, call.body],
    [...['/responses', { input: 'x', tools: [function_], model: 'm', store: false }]],
  );
  for (const more of [
    { previous_response_id: 'resp_1' },
    { conversation: 'conv_1' },
    { prompt: { id: 'pmpt_1' } },
    { background: true },
  ])
    assert.throws(() => callOf('m', { input: 'x', ...more }), {
      status: 400,
      message: /is not supported: apps may not store data/,
    });
  for (const tool of [{ type: 'web_search' }, { type: 'file_search', vector_store_ids: ['vs_1'] }, 'x'])
    for (const asked of [{ input: 'x' }, { prompt: 'x' }])
      assert.throws(() => callOf('m', { ...asked, tools: [tool] }), { message: /tools must be functions/ });
  for (const asked of [
    chat({ type: 'file', file: { file_id: 'file-1' } }),
    { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'file-1' }] }] },
    { input: [{ type: 'item_reference', id: 'msg_1' }] },
    { input: [{ id: 'msg_1' }] },
    {
      input: [
        { role: 'user', content: 'x' },
        { type: null, role: null, id: 'msg_1' },
      ],
    },
    { input: { id: 'msg_1' } },
  ])
    assert.throws(() => callOf('m', asked), { message: /stored on the AI server are not allowed/ });
  const items = [
    { type: 'function_call', id: 'fc_1' },
    { role: 'assistant', id: 'msg_1', content: 'x' },
    'x',
  ];
  assert.deepEqual(callOf('m', { input: items }).body.input, items);
  // The model's name must not change the path.
  for (const model of ['../files', '/v1/files', 'http://10.0.0.1/'])
    assert.equal(callOf(model, { input: 'x' }).path, '/responses');
});

test('a bare JSON schema, as Workers AI takes it, is named for the AI server', () => {
  const sent = (format: unknown) =>
    callOf('m', { prompt: 'x', response_format: format }).body.response_format;
  const schema = { type: 'object', properties: { schema: { type: 'string' } } };
  const named = { type: 'json_schema', json_schema: { name: 'response', schema } };
  assert.deepEqual(sent({ type: 'json_schema', json_schema: schema }), named);
  const own = { type: 'json_schema', json_schema: { name: 'country', schema, strict: true } };
  for (const format of [own, { type: 'json_object' }, { type: 'json_schema' }, 'x'])
    assert.deepEqual(sent(format), format);
});

test('an image beside the prompt or the messages goes into the last message of the user', () => {
  const png = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00];
  const url = `data:image/png;base64,${Buffer.from(png).toString('base64')}`;
  const part = { type: 'image_url', image_url: { url } };
  const text = { type: 'text', text: 'What is this?' };
  const asked = { role: 'user', content: text.text };
  const seen = { role: 'user', content: [text, part] };
  const sent = (inputs: object) => callOf('m', inputs).body.messages;
  for (const image of [png, url]) assert.deepEqual(sent({ prompt: text.text, image }), [seen]);
  const first = { role: 'user', content: 'Hello' };
  const answer = { role: 'assistant', content: 'Hi' };
  const messages = [first, answer, asked, answer];
  assert.deepEqual(sent({ messages, image: png }), [first, answer, seen, answer]);
  const given = { role: 'user', content: [text] };
  assert.deepEqual(sent({ messages: [given], image: url }), [seen]);
  assert.deepEqual(sent({ messages: [asked], image: null }), [asked]);
  const [{ content }] = sent({ prompt: 'x', image: [0xff, 0xd8, 0xff] }) as [typeof seen];
  assert.deepEqual(content[1], { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,/9j/' } });
});

test('an image that is no image is refused, and no address of one reaches the AI server', () => {
  for (const image of [
    'http://169.254.169.254/latest/meta-data/',
    ' data:image/png;base64,AAAA',
    'data:text/html,x',
    'iVBORw0KGgo=',
    { 0: 0x89, 1: 0x50 },
    [],
    [0x89, 'P'],
    [0x89 + 256, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    [...Buffer.from('BM bitmap')],
    [...Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
    7,
  ])
    assert.throws(
      () => callOf('m', { prompt: 'x', image }),
      { status: 400, message: /^"image" must be/ },
      JSON.stringify(image),
    );
  for (const messages of [[], [{ role: 'system', content: 'x' }, null]])
    assert.throws(() => callOf('m', { messages, image: DATA }), { status: 400, message: /"image" needs/ });
});
