// The secrets of local work: Wrangler's `.dev.vars`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';

/** Names that a binding can have. */
const NAME = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** The file for an environment of the Wrangler configuration, else the one for all. */
function files(environment: string | null): string[] {
  return environment === null ? ['.dev.vars'] : [`.dev.vars.${environment}`, '.dev.vars'];
}

/** Whether a path from the folder is one of a file of variables. */
export function isVariables(path: string): boolean {
  return /^\.dev\.vars(\..*)?$/.test(path);
}

/** Reads the variables of a folder, as the Worker gets them. Others than names of JavaScript are left out, and `say` is told. */
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
      if (!NAME.test(key)) say(`${name}: ${key} is no name of a binding, and is left out`);
    return Object.fromEntries(given.filter(([key]) => NAME.test(key)));
  }
  return {};
}
