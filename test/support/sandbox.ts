// For tests that need a sandbox for builds. Root has one; other users need bubblewrap.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeView } from '../../runtime/isolation/isolation.ts';
import { findSandbox } from '../../runtime/isolation/sandbox.ts';
import { NOBODY } from '../../runtime/isolation/users.ts';

const scratch = mkdtempSync(join(tmpdir(), 'cellar-probe-'));
const found = await findSandbox(makeView(scratch), process.getuid?.() === 0 ? NOBODY : null);
rmSync(scratch, { recursive: true });

/** Options of a test that needs a sandbox. They skip the test, with the reason, where there is none. */
export const NEEDS_SANDBOX: { skip?: string } =
  typeof found === 'string' ? { skip: `builds have no sandbox here: ${found}` } : {};
