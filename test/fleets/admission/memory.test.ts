import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { readMemory } from '../../../runtime/resources/memory.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const MB = 1024 * 1024;

/** Makes a file system root with these files, as the kernel shows them. */
function rootWith(t: TestContext, files: Record<string, string>): string {
  const root = temporaryDirectory(t);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

test('in cgroup v2 the working set is the usage without reclaimable memory', (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '0::/cellar.service\n',
    'sys/fs/cgroup/cellar.service/memory.max': `${512 * MB}\n`,
    'sys/fs/cgroup/cellar.service/memory.current': `${300 * MB}\n`,
    'sys/fs/cgroup/cellar.service/memory.stat': `anon 1\ninactive_file ${100 * MB}\nactive_file 5\n`,
  });
  assert.deepEqual(readMemory(root), {
    source: 'cgroup v2',
    total: 512 * MB,
    used: 200 * MB,
    free: 312 * MB,
  });
});

test('a host that moved itself into a child control group uses the limit of the parent', (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '0::/cellar.service/cellar-host\n',
    'sys/fs/cgroup/cellar.service/memory.max': `${512 * MB}\n`,
    'sys/fs/cgroup/cellar.service/memory.current': `${300 * MB}\n`,
    'sys/fs/cgroup/cellar.service/cellar-host/memory.max': 'max\n',
    'sys/fs/cgroup/cellar.service/cellar-host/memory.current': `${100 * MB}\n`,
  });
  assert.deepEqual(readMemory(root), {
    source: 'cgroup v2',
    total: 512 * MB,
    used: 300 * MB,
    free: 212 * MB,
  });
});

test('the lowest memory limit counts, with the usage of the control group that has it', (t) => {
  const v2 = rootWith(t, {
    'proc/self/cgroup': '0::/small.slice/cellar.service\n',
    'sys/fs/cgroup/small.slice/memory.max': `${256 * MB}\n`,
    'sys/fs/cgroup/small.slice/memory.current': `${200 * MB}\n`,
    'sys/fs/cgroup/small.slice/memory.stat': `inactive_file ${20 * MB}\n`,
    'sys/fs/cgroup/small.slice/cellar.service/memory.max': 'max\n',
    'sys/fs/cgroup/small.slice/cellar.service/memory.current': `${100 * MB}\n`,
  });
  assert.deepEqual(readMemory(v2), { source: 'cgroup v2', total: 256 * MB, used: 180 * MB, free: 76 * MB });
  const v1 = rootWith(t, {
    'proc/self/cgroup': '4:memory:/small/cellar\n',
    'sys/fs/cgroup/memory/small/memory.limit_in_bytes': `${256 * MB}\n`,
    'sys/fs/cgroup/memory/small/memory.usage_in_bytes': `${200 * MB}\n`,
    'sys/fs/cgroup/memory/small/cellar/memory.limit_in_bytes': `${512 * MB}\n`,
    'sys/fs/cgroup/memory/small/cellar/memory.usage_in_bytes': `${100 * MB}\n`,
  });
  assert.deepEqual(readMemory(v1), { source: 'cgroup v1', total: 256 * MB, used: 200 * MB, free: 56 * MB });
});

test('the control group with the least free memory counts, although its limit is higher', (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '0::/shared.slice/cellar.service\n',
    'sys/fs/cgroup/shared.slice/memory.max': `${1024 * MB}\n`,
    'sys/fs/cgroup/shared.slice/memory.current': `${1001 * MB}\n`,
    'sys/fs/cgroup/shared.slice/memory.stat': `inactive_file ${MB}\n`,
    'sys/fs/cgroup/shared.slice/cellar.service/memory.max': `${512 * MB}\n`,
    'sys/fs/cgroup/shared.slice/cellar.service/memory.current': `${100 * MB}\n`,
  });
  assert.deepEqual(readMemory(root), { source: 'cgroup v2', total: 512 * MB, used: 100 * MB, free: 24 * MB });
  assert.equal(new MemoryGauge(0, 512, root).over, true);
  assert.equal(new MemoryGauge(400, 512, root).over, false, 'a set limit is that of the own group');
});

test('the use of a parent without a limit does not count', (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '0::/system.slice/cellar.service\n',
    'sys/fs/cgroup/system.slice/memory.max': 'max\n',
    'sys/fs/cgroup/system.slice/memory.current': `${900 * MB}\n`,
    'sys/fs/cgroup/system.slice/cellar.service/memory.max': 'max\n',
    'sys/fs/cgroup/system.slice/cellar.service/memory.current': `${100 * MB}\n`,
  });
  const total = totalmem();
  assert.deepEqual(readMemory(root), { source: 'cgroup v2', total, used: 100 * MB, free: total - 100 * MB });
});

test("a cgroup v2 without a limit has the machine's memory, and may appear as the root of a container", (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '0::/not/shown/here\n',
    'sys/fs/cgroup/memory.max': 'max\n',
    'sys/fs/cgroup/memory.current': `${MB}\n`,
    'sys/fs/cgroup/memory.stat': 'inactive_file 0\n',
  });
  assert.deepEqual(readMemory(root), {
    source: 'cgroup v2',
    total: totalmem(),
    used: MB,
    free: totalmem() - MB,
  });
});

test('cgroup v1 reports the same under other names', (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '9:cpu,cpuacct:/\n4:memory:/cellar\n0::/\n',
    'sys/fs/cgroup/memory/cellar/memory.limit_in_bytes': `${256 * MB}\n`,
    'sys/fs/cgroup/memory/cellar/memory.usage_in_bytes': `${200 * MB}\n`,
    'sys/fs/cgroup/memory/cellar/memory.stat': `inactive_file 7\ntotal_inactive_file ${50 * MB}\n`,
  });
  assert.deepEqual(readMemory(root), {
    source: 'cgroup v1',
    total: 256 * MB,
    used: 150 * MB,
    free: 106 * MB,
  });
});

test("a cgroup v1 limit above the machine's memory counts as no limit", (t) => {
  const root = rootWith(t, {
    'proc/self/cgroup': '4:memory:/\n',
    'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
    'sys/fs/cgroup/memory/memory.usage_in_bytes': `${MB}\n`,
  });
  assert.deepEqual(readMemory(root), {
    source: 'cgroup v1',
    total: totalmem(),
    used: MB,
    free: totalmem() - MB,
  });
});

test("without a cgroup the machine's memory counts", (t) => {
  const root = rootWith(t, { 'proc/meminfo': 'MemTotal: 9 kB\nMemAvailable:   1024 kB\n' });
  assert.deepEqual(readMemory(root), {
    source: 'machine',
    total: totalmem(),
    used: totalmem() - MB,
    free: MB,
  });
});

test('this machine can be read, and the limit is the setting or most of the memory', () => {
  const { total, used, free } = readMemory();
  assert.ok(total > 0 && used > 0 && used <= total, `${used} of ${total}`);
  assert.equal(new MemoryGauge(1, 512).over, true);
  assert.equal(new MemoryGauge(2 ** 40, 512).over, false);
  assert.equal(new MemoryGauge(0, 512).over, total - free > total * 0.8);
});
