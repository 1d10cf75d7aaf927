// What of a running Cellar depends on a source.
import type { Reload } from '../runtime/host.ts';

/** By the beginning of a path, the first that fits; nothing for what a running Cellar does not read. */
const RULES: readonly [begins: string, reloads: readonly (Reload | 'host')[]][] = [
  // The host and both Workers have it.
  ['handlers/contract/', ['host']],
  ['handlers/ui/', ['ui']],
  ['handlers/', ['control']],
  ['ui/', ['ui']],
  ['client/', ['ui']],
  ['runtime/dev/', []],
  ['runtime/', ['host']],
  ['bundler/', ['host']],
  ['sqlite/', ['host']],
  ['templates/', ['host']],
  ['package-lock.json', ['host']],
];

/** What to load again after a save of these paths, each once. */
export function reloadsFor(paths: readonly string[]): (Reload | 'host')[] {
  const all = paths.flatMap((path) => RULES.find(([begins]) => path.startsWith(begins))?.[1] ?? []);
  return [...new Set(all)];
}
