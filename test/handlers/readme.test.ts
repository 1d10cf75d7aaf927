// The README's table of operations, against the contract.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { operations } from '../../handlers/contract/index.ts';
import type { Operation } from '../../handlers/contract/operation.ts';

const README = new URL('../../README.md', import.meta.url);
const MARKED = /(?<=<!-- operations -->\n).*?(?=<!-- \/operations -->)/s;

const declared: readonly Operation[] = operations;
const rows = declared.map(({ name, method, path, summary }) => {
  const rest = path === null ? '' : `\`${method} ${path.replace(/:(\w+)\+?/g, '{$1}')}\``;
  return `| \`${name}\` | ${rest} | ${summary} |\n`;
});
const table = `| RPC | REST | |\n| --- | --- | --- |\n${rows.join('')}`;

test('the README has every operation with its REST route and its RPC method', () => {
  if (process.env.UPDATE_README) {
    writeFileSync(
      README,
      readFileSync(README, 'utf8').replace(MARKED, () => table),
    );
  }
  const [written] = MARKED.exec(readFileSync(README, 'utf8')) ?? [];
  assert.equal(written, table, 'UPDATE_README=1 node scripts/test.ts test/handlers/readme.test.ts writes it');
});
