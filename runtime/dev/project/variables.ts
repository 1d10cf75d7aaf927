// The secrets for local development: Wrangler's `.dev.vars`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';

/** Valid names of bindings. */
const NAME = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** Returns the candidate files: the one for the environment first, then the general one. */
function files(environment: string | null): string[] {
  return environment === null ? ['.dev.vars'] : [`.dev.vars.${environment}`, '.dev.vars'];
}

/** Whether a path, relative to the folder, is a file of variables. */
export function isVariables(path: string): boolean {
  return /^\.dev\.vars(\..*)?$/.test(path);
}

/** Reads a folder's variables for the Worker. Skips names that no binding can have, and reports them with `say`. */
export function readVariables(
  folder: string,
  environment: string | null,
  say: (words: string) => void,
): Record<string, string> {
  for (const name of files(environment)) {
    let text: string;
    try {
      text = readFileSync(join(folder, name), 'utf8');
    } catch {
      continue;
    }
    const given = Object.entries(parseEnv(text)) as [string, string][];
    for (const [key] of given)
      if (!NAME.test(key)) say(`${name}: ${key} is not the name of a binding, and is left out`);
    return Object.fromEntries(given.filter(([key]) => NAME.test(key)));
  }
  return {};
}
