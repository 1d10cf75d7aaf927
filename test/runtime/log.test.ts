import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

test('a log without a reader takes bounded memory, and later says what is missing', async () => {
  const module = new URL('../../runtime/log.ts', import.meta.url).href;
  const script = `
    const { log } = await import(${JSON.stringify(module)});
    const line = 'x'.repeat(1_000);
    for (let i = 0; i < 20_000; i++) {
      log('info', line);
      if (i % 100 === 0) await new Promise(setImmediate);
    }
    process.stderr.write(String(process.stdout.writableLength));
    process.stdout.once('drain', () => log('info', 'read again'));`;
  const writer = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [waiting] = await once(writer.stderr, 'data');
  assert.ok(Number(waiting) < 1.1 * 2 ** 20, `${waiting} bytes wait`);
  let [read, missing, last] = [0, 0, ''];
  for await (const line of createInterface({ input: writer.stdout })) {
    // Node's buffer may drain once in between, so the log may report dropped lines twice.
    const dropped = /dropped because nothing read the output lines=(\d+)$/.exec(line);
    if (dropped) missing += Number(dropped[1]);
    else read++;
    last = line;
  }
  assert.match(last, /read again$/);
  assert.ok(missing > 0);
  assert.equal(read - 1 + missing, 20_000);
});

test('a reader that goes away, as `| head -1` does, loses lines and does not end the process', async (t) => {
  const module = new URL('../../runtime/log.ts', import.meta.url).href;
  const script = `
    const { log } = await import(${JSON.stringify(module)});
    log('info', 'first');
    process.stdin.once('data', () => {
      log('info', 'nobody reads this');
      process.stdout.once('close', () => {
        log('info', 'nor this');
        setImmediate(() => process.stderr.write('lives'));
      });
    });`;
  const writer = spawn(process.execPath, ['--input-type=module', '-e', script]);
  t.after(() => writer.kill('SIGKILL'));
  await once(writer.stdout, 'data');
  writer.stdout.destroy();
  await once(writer.stdout, 'close');
  writer.stdin.write('go on');
  const [said] = await Promise.race([once(writer.stderr, 'data'), once(writer, 'exit')]);
  assert.equal(String(said), 'lives');
});

test('a rate-limited line is written once, and at most a thousand others are remembered', () => {
  const module = new URL('../../runtime/log.ts', import.meta.url).href;
  const script = `
    const { logRarely } = await import(${JSON.stringify(module)});
    logRarely('info', 'first');
    logRarely('info', 'first');
    for (let i = 0; i < 1_000; i++) logRarely('info', 'other ' + i);
    logRarely('info', 'other 999');
    logRarely('info', 'first');`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const lines = stdout.trim().split('\n');
  assert.equal(lines.filter((line) => line.endsWith(' first')).length, 2);
  assert.equal(lines.length, 1_002);
});
