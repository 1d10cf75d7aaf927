// The name of a branch's preview: always a DNS label that nothing else uses, whatever the branch.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newId } from '../../handlers/contract/id.ts';
import { branchName, isPreviewName, versionName } from '../../runtime/apps/preview-app.ts';

const LONGEST_SLUG = 'a'.repeat(40);
const nameOf = (branch: string, taken: string[] = []) => branchName(branch, (name) => taken.includes(name));

test('a branch is its own name where it is a valid label', () => {
  assert.equal(nameOf('staging'), 'staging');
  assert.equal(nameOf('feature/Login Page'), 'feature-login-page');
  assert.equal(nameOf('fix/à--b_c'), 'fix-a-b-c');
});

test('a branch that is too long, too short, taken or a version’s name gets a hash, the same each time', () => {
  for (const branch of [
    'x',
    'xn',
    '日本',
    '--',
    'deadbeef',
    'a-very-long-branch-name-of-somebody',
    '.'.repeat(200),
  ]) {
    const name = nameOf(branch);
    assert.match(name, /^[a-z0-9-]+-[0-9a-f]{7}$/, branch);
    assert.equal(nameOf(branch), name);
  }
  const other = nameOf('feature/x', ['feature-x']);
  assert.notEqual(other, 'feature-x');
  assert.notEqual(other, nameOf('feature-x', ['feature-x']));
});

test('any branch gives a label whose address can have a certificate, with any slug', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 300, unit: 'binary' }), (branch) => {
      const name = nameOf(branch);
      assert.ok(isPreviewName(name, LONGEST_SLUG), name);
      const label = `${name}--${LONGEST_SLUG}`;
      assert.ok(label.length <= 63 && label.split('--').length === 2 && !/^..--/.test(label), label);
    }),
  );
});

test('neither a version’s name nor an invalid label is a preview’s name', () => {
  for (const name of [
    '',
    'a',
    'ab',
    'a--b',
    '-ab',
    'ab-',
    'A-b',
    'a.b',
    'a/b',
    '0123abcd',
    versionName(newId()),
    'a'.repeat(22),
  ])
    assert.ok(!isPreviewName(name, LONGEST_SLUG), name);
  assert.ok(isPreviewName('a'.repeat(21), LONGEST_SLUG));
});
