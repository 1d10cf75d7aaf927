// The sandbox of root in a container, whose view of the machine bubblewrap makes: it mounts files, and takes a filter of
// system calls, as podman and Docker do.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chownSync, closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../runtime/machine/programs.ts';
import { makeView } from '../../runtime/machine/walls.ts';
import { NEEDS_SANDBOX } from '../support/sandbox.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const isRoot = process.getuid?.() === 0;
const NEEDS_CONTAINER =
  isRoot && findProgram('bwrap') !== null ? NEEDS_SANDBOX : { skip: 'it needs root, and bubblewrap' };
const NOBODY = 65_534;
const MODULE = fileURLToPath(new URL('../../runtime/machine/sandbox.ts', import.meta.url));
/** Finds the sandbox of a view, which is its argument, and runs a command there. */
const FIND_AND_RUN = `
import { spawnSync } from 'node:child_process';
import { findSandbox } from ${JSON.stringify(MODULE)};
const [probe, view, ...command] = JSON.parse(process.argv[1]);
const sandbox = await findSandbox(probe);
if (typeof sandbox === 'string') throw new Error(sandbox);
const [file, ...words] = [...sandbox(view, { uid: ${NOBODY}, gid: ${NOBODY} }), ...command];
process.exitCode = spawnSync(file, words, { cwd: '/', stdio: 'inherit' }).status;
`;
/** The numbers of pivot_root(2). */
const PIVOT_ROOT = { x64: 155, arm64: 41 }[process.arch as string];

/** A filter for seccomp(2): of the system calls, the one of this number is not there (ENOSYS), as in Docker's own filter. */
function filterWithout(number: number): Buffer {
  const instructions = [
    // The number of the call is taken,
    [0x20, 0, 0, 0],
    // compared, and the next instruction is left out where it is another.
    [0x15, 0, 1, number],
    [0x06, 0, 0, 0x00050000 + 38],
    [0x06, 0, 0, 0x7fff0000],
  ];
  const filter = Buffer.alloc(8 * instructions.length);
  for (const [index, [code, then, otherwise, value]] of instructions.entries()) {
    filter.writeUInt16LE(code!, 8 * index);
    filter.writeUInt8(then!, 8 * index + 2);
    filter.writeUInt8(otherwise!, 8 * index + 3);
    filter.writeUInt32LE(value!, 8 * index + 4);
  }
  return filter;
}

/** Runs `command` in the sandbox that a container with these flags of bubblewrap's has. */
function runInContainer(
  t: TestContext,
  {
    flags,
    filter = null,
    read,
    command,
  }: { flags: string[]; filter?: Buffer | null; read: string[]; command: string[] },
): string {
  const scratch = temporaryDirectory(t);
  const view = { ...makeView(join(scratch, 'own')), read, cwd: '/tmp' };
  for (const path of [view.temporary, view.shared]) chownSync(path, NOBODY, NOBODY);
  const input = JSON.stringify([makeView(join(scratch, 'probe')), view, ...command]);
  const filterPath = join(scratch, 'filter');
  writeFileSync(filterPath, filter ?? '');
  const descriptor = openSync(filterPath, 'r');
  t.after(() => closeSync(descriptor));
  const base = ['--bind', '/', '/', '--dev-bind', '/dev', '/dev', '--cap-add', 'ALL'];
  const node = [process.execPath, '--input-type=module', '-e', FIND_AND_RUN, input];
  const words = [...base, ...flags, ...(filter ? ['--seccomp', '3'] : []), '--', ...node];
  const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe', descriptor];
  const { status, stdout, stderr } = spawnSync('bwrap', words, { stdio, encoding: 'utf8', timeout: 60_000 });
  assert.equal(status, 0, stderr);
  return stdout;
}

test('a file that is mounted in a directory of a build is seen as what is mounted', NEEDS_CONTAINER, (t) => {
  const outside = temporaryDirectory(t);
  const mounted = join(temporaryDirectory(t), 'certificates');
  mkdirSync(mounted);
  writeFileSync(join(outside, 'company.crt'), 'the certificate');
  writeFileSync(join(mounted, 'company crt'), '');
  const path = join(mounted, 'company crt');
  const flags = ['--ro-bind', join(outside, 'company.crt'), path];
  const command = ['sh', '-c', 'cat "$0"; echo > "$0" || echo " is read-only"', path];
  assert.equal(runInContainer(t, { flags, read: [mounted], command }), 'the certificate is read-only\n');
});

test(
  'where nobody may change the root of a mount namespace, a build has a sandbox all the same',
  PIVOT_ROOT === undefined ? { skip: 'the number of pivot_root is not known here' } : NEEDS_CONTAINER,
  (t) => {
    const outside = temporaryDirectory(t);
    writeFileSync(join(outside, 'secret'), 'secret');
    const tries = `pwd; id -u; ls -d ${outside} /root /proc/1/root/root /../../root 2>/dev/null; ls -A /tmp | wc -l
      unshare --user --map-root-user --mount sh -c 'umount -l / ; ls -d /root ${outside}' 2>/dev/null; echo done`;
    const printed = runInContainer(t, {
      flags: [],
      filter: filterWithout(PIVOT_ROOT!),
      read: [],
      command: ['sh', '-c', tries],
    });
    assert.equal(printed, '/tmp\n65534\n0\ndone\n');
  },
);
