// Hosts of tests and of the chaos runs leave no packet filter rules, however they end. Others keep theirs. Needs root and `nft`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { renameSync } from 'node:fs';
import { test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { Firewall, openFirewall } from '../../runtime/isolation/firewall.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { NEEDS_RULES, RULES } from '../support/rules.ts';

const hasTable = (name: string) =>
  execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' }).includes(name.replaceAll('-', '_'));

test('a killed host whose data directory is lost leaves no rules', NEEDS_RULES, async (t) => {
  const other = await openFirewall(RULES, []);
  assert.ok(other instanceof Firewall);
  t.after(() => other.close());
  const cellar = new Cellar();
  const names: string[] = [];
  try {
    for (let round = 0; round < 2; round++) {
      await cellar.start();
      names.push(layout(cellar.data).machineName);
      assert.ok(hasTable(names[round]!));
      await cellar.stop('SIGKILL');
      // Renamed, because a new directory could get the inode of a deleted one, and so the same machine name.
      renameSync(cellar.data, `${cellar.data}-${round}`);
    }
  } finally {
    await cellar[Symbol.asyncDispose]();
  }
  assert.notEqual(names[0], names[1]);
  assert.deepEqual(names.map(hasTable), [false, false]);
  assert.ok(hasTable(RULES), 'the rules of another Cellar stay');
});
