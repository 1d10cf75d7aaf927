// The program that bundles a folder for `cellar deploy --upload`. The CLI starts it, with its options as JSON. It writes the
// bundle's files to `out`, and their description to `bundle.json`.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import { reason } from '../log.ts';
import { compiledDirectory } from '../threads/compile-cache.ts';
import { BUNDLE_FILE } from '../uploads/version-files.ts';
import { Folder } from './project/folder.ts';

const { folder, out, scratch, environment, settings } = JSON.parse(process.argv[2]!) as {
  folder: string;
  /** A directory that does not exist yet. */
  out: string;
  /** A directory for temporary files. */
  scratch: string;
  environment: string | null;
  settings: BuildSettings;
};
const say = (line: string) => process.stderr.write(`${line}\n`);
const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => ending.abort(new Error('it was ended')));
// The CLI has exited, for any reason.
process.on('disconnect', () => ending.abort(new Error('it was ended')));

const project = new Folder({
  folder,
  settings,
  environment,
  compiled: compiledDirectory(),
  cache: scratch,
  onStep: (words, ms) => say(`▸ ${words} in ${Math.round(ms)} ms`),
  onLine: say,
});
try {
  await project.build(null, ending.signal);
  const { bundle, notes } = await project.bundle(out);
  ending.signal.throwIfAborted();
  for (const note of notes) say(note);
  writeFileSync(join(out, BUNDLE_FILE), JSON.stringify(bundle));
} catch (error) {
  say(`cellar: ${reason(error)}`);
  process.exitCode = 1;
} finally {
  project.close();
}
process.disconnect?.();
