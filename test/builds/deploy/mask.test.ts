// Masking of secrets in logs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeployLog } from '../../../runtime/builds/deploy/deploy-log.ts';
import { maskOf } from '../../../runtime/builds/deploy/mask.ts';

test('secrets are masked wherever they occur, the longest first, each of their lines too', () => {
  const mask = maskOf(['secret', 'secret-and-more', 'abc', '', 'first line\r\n  second line\n', 'a.b*c']);
  assert.equal(mask('x=secret-and-more, secretsecret'), 'x=***, ******');
  assert.equal(mask('abc and aXbbc'), 'abc and aXbbc');
  assert.equal(mask('a.b*c'), '***');
  assert.equal(mask('the first line, the second line'), 'the ***, the ***');
  assert.equal(maskOf([])('nothing to hide'), 'nothing to hide');
});

test('all lines of the maximum number of keys are masked, and of too many lines the longest', () => {
  const pem = (n: number) => Array.from({ length: 76 }, (_, k) => `${n}-${k}-`.padEnd(64, 'x')).join('\n');
  const keys = Array.from({ length: 150 }, (_, n) => pem(n));
  const short = Array.from({ length: 20_000 }, (_, n) => `s${n}`).join('\n');
  const mask = maskOf([short, ...keys]);
  const lines = keys.join('\n').split('\n');
  assert.equal(mask([lines[0], lines[5_000], lines.at(-1)].join()), '***,***,***');
});

test('secrets that contain escape sequences are masked too', () => {
  const lines: string[] = [];
  const log = new DeployLog({ onLine: (line) => lines.push(line), onSteps: () => {} });
  log.line('secret, before anything is hidden');
  log.hide(['secret']);
  log.line('se\u001b[1mcr\u001b[0met\nand secret');
  assert.deepEqual(lines.slice(1), ['***', 'and ***']);
  assert.ok(log.text.endsWith('***\nand ***\n'));
});
