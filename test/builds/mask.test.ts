// What a log does not show.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeployLog } from '../../runtime/builds/deploy-log.ts';
import { maskOf } from '../../runtime/builds/mask.ts';

test('values are hidden wherever they stand, the longer one first, and each line of them', () => {
  const mask = maskOf(['secret', 'secret-and-more', 'abc', '', 'first line\r\n  second line\n', 'a.b*c']);
  assert.equal(mask('x=secret-and-more, secretsecret'), 'x=***, ******');
  assert.equal(mask('abc and aXbbc'), 'abc and aXbbc');
  assert.equal(mask('a.b*c'), '***');
  assert.equal(mask('the first line, the second line'), 'the ***, the ***');
  assert.equal(maskOf([])('nothing to hide'), 'nothing to hide');
});

test('a log hides what is hidden behind escape sequences too', () => {
  const lines: string[] = [];
  const log = new DeployLog({ onLine: (line) => lines.push(line), onSteps: () => {} });
  log.line('secret, before anything is hidden');
  log.hide(['secret']);
  log.line('se\u001b[1mcr\u001b[0met\nand secret');
  assert.deepEqual(lines.slice(1), ['***', 'and ***']);
  assert.ok(log.text.endsWith('***\nand ***\n'));
});
