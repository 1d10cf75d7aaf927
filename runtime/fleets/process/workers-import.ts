// Rewrites imports of `cloudflare:workers` in an app's modules, so that Cellar's entry module also counts the tasks passed
// to the imported `waitUntil`.
import { type Import, init, parse } from 'es-module-lexer';
import { WORKERS } from '../config/entry.ts';

const REPLACED = 'cloudflare:workers';

/**
 * Returns the text of an app's module that imports `WORKERS` instead of `cloudflare:workers`; null when it needs no change.
 * Text in string literals is not changed, because it may be the code of a Worker that the app loads.
 */
export async function withWorkers(text: string): Promise<string | null> {
  if (!text.includes('waitUntil') || !text.includes(REPLACED)) return null;
  await init;
  let changed = text;
  // From the last import to the first, so that the positions of earlier imports stay valid.
  for (const { type, specifier, start, end } of importsOf(text).toReversed())
    if (specifier === REPLACED && type !== 'dynamic')
      changed = `${changed.slice(0, start)}./${WORKERS.name}${changed.slice(end)}`;
  return changed;
}

/** Returns the imports of a module; none if the module cannot be parsed: workerd will report the error. */
function importsOf(text: string): readonly Import[] {
  try {
    return parse(text)[0];
  } catch {
    return [];
  }
}
