// Reader processes with invalid output or none: callers get an answer or an error, and the process ends.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ReaderEnded, ReaderProcess } from '../../runtime/storage/reader-process.ts';
import { eventually } from '../support/processes.ts';

const LIMIT_BYTES = 1_000_000;

/** Starts a reader that runs `step` for each query. In a step, `say` prints. */
async function readerOf(t: TestContext, step: string): Promise<ReaderProcess> {
  const program = `import { spawn } from 'node:child_process';
    import { writeSync } from 'node:fs';
    import { createInterface } from 'node:readline';
    const say = (text) => { for (let rest = Buffer.from(text); rest.length > 0; ) rest = rest.subarray(writeSync(1, rest)); };
    const stay = () => spawn('sleep', ['1000'], { detached: true, stdio: ['ignore', 1, 2] }).pid;
    for await (const line of createInterface({ input: process.stdin })) { ${step} }`;
  const reader = await ReaderProcess.start([process.execPath, '--input-type=module', `--eval=${program}`]);
  t.after(() => reader.end());
  return reader;
}

function ask(reader: ReaderProcess, question: object = {}) {
  return reader.ask(question, LIMIT_BYTES);
}

test('an answer arrives whole however it is split, and so does the next one', async (t) => {
  const reader = await readerOf(
    t,
    `for (const piece of ['{"byt', 'es":700001,"ref', 'used":true}\\n"', 'x'.repeat(699_999), '"']) {
       say(piece);
       await new Promise(setImmediate);
     }`,
  );
  for (let n = 0; n < 3; n++) {
    const { bytes, refused } = await ask(reader);
    assert.equal(bytes.length, 700_001);
    assert.ok(refused);
    assert.ok(reader.isReady);
  }
});

test('a reader with invalid output is killed at once', async (t) => {
  const steps = {
    'a head without an end': `say('{"bytes":1' + ' '.repeat(200))`,
    'a long head': `say('{"bytes":1' + ' '.repeat(200) + '}\\nx')`,
    'a head that is no JSON': `say('bytes: 1\\nx')`,
    'a head that is null': `say('null\\nx')`,
    'less than nothing': `say('{"bytes":-1}\\nx')`,
    'part of a byte': `say('{"bytes":0.5}\\nx')`,
    'more than it may': `say('{"bytes":${LIMIT_BYTES + 1}}\\nx')`,
    'more than it announced': `say('{"bytes":1}\\nxy')`,
  };
  for (const [what, step] of Object.entries(steps)) {
    const reader = await readerOf(t, step);
    await assert.rejects(ask(reader), ReaderEnded, what);
    assert.ok(!reader.isReady, what);
  }
});

test('a reader that prints without a query, or exits, is no longer ready', async (t) => {
  for (const step of ['setTimeout(() => say("{}"), 50)', 'setTimeout(() => process.exit(0), 50)']) {
    const reader = await readerOf(t, `say('{"bytes":1}\\nx'); ${step}`);
    assert.equal((await ask(reader)).bytes.toString(), 'x');
    await eventually(() => !reader.isReady, step);
  }
});

test('a reader whose output is held open by another process blocks no caller', {
  timeout: 30_000,
}, async (t) => {
  const held = (rest: string) =>
    `const pid = String(stay()); say(\`{"bytes":\${pid.length}}\\n\${pid}\`); ${rest}`;
  const left: number[] = [];
  t.after(() => left.forEach((pid) => void process.kill(pid)));
  const first = async (reader: ReaderProcess) => {
    left.push(Number((await ask(reader)).bytes.toString()));
  };
  const idle = await readerOf(t, held('setTimeout(() => process.exit(0), 50)'));
  await first(idle);
  await eventually(() => !idle.isReady, 'it has ended while nobody asked');

  const ending = await readerOf(t, `if (line.includes('end')) process.exit(0); ${held('')}`);
  await first(ending);
  await assert.rejects(ask(ending, { end: true }), ReaderEnded);

  const silent = await readerOf(t, `if (!line.includes('wait')) { ${held('')} }`);
  await first(silent);
  const ended = assert.rejects(ask(silent, { wait: true }), ReaderEnded);
  silent.end();
  await ended;
  assert.ok(!silent.isReady);
});
