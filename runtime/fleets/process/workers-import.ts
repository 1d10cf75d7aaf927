// Rewrites imports of `cloudflare:workers` in an app's modules, so that the entry also counts work passed to the imported
// `waitUntil`.
import { type Import, init, parse } from 'es-module-lexer';
import { WORKERS } from '../config/entry.ts';

const REPLACED = 'cloudflare:workers';

/**
 * Returns the text of an app's module with `WORKERS` imported; null when it needs no change. Strings stay as they are: they
 * may be the code of a Worker that the app loads.
 */
export async function withWorkers(text: string): Promise<string | null> {
  if (!text.includes('waitUntil') || !text.includes(REPLACED)) return null;
  await init;
  let changed = text;
  // From the end, so that earlier positions stay right.
  for (const { type, specifier, start, end } of importsOf(text).toReversed())
    if (specifier === REPLACED && type !== 'dynamic')
      changed = `${changed.slice(0, start)}./${WORKERS.name}${changed.slice(end)}`;
  return changed;
}

/** Returns the imports of a module; none if it cannot be parsed, because workerd reports that error. */
function importsOf(text: string): readonly Import[] {
  try {
    return parse(text)[0];
  } catch {
    return [];
  }
}
