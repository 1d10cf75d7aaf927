// Maps sources to the parts of a running Cellar that must be reloaded.
import type { Reload } from '../runtime/host.ts';

/** What to reload, by path prefix; the first match wins. A running Cellar does not read files without a match. */
const RULES: readonly [begins: string, reloads: readonly (Reload | 'host')[]][] = [
  // The host and both of Cellar's Workers import the contract.
  ['handlers/contract/', ['host']],
  ['handlers/ui/', ['ui']],
  ['handlers/', ['control']],
  ['ui/', ['ui']],
  ['docs/', ['ui']],
  ['client/', ['ui']],
  ['runtime/dev/', []],
  ['runtime/', ['host']],
  ['bundler/', ['host']],
  ['sqlite/', ['host']],
  ['templates/', ['host']],
  ['package-lock.json', ['host']],
];

/** Returns the parts to reload after these paths were saved, without duplicates. */
export function reloadsFor(paths: readonly string[]): (Reload | 'host')[] {
  const all = paths.flatMap((path) => RULES.find(([begins]) => path.startsWith(begins))?.[1] ?? []);
  return [...new Set(all)];
}
