// The secrets for local development, from the files that Wrangler reads: `.dev.vars`, or else `.env` and its like.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';

/** Valid names of bindings. */
const NAME = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** Returns the names of Wrangler's own file, that of the environment first. The first that exists is used alone. */
function ownFiles(environment: string | null): string[] {
  return environment === null ? ['.dev.vars'] : [`.dev.vars.${environment}`, '.dev.vars'];
}

/** Returns the names of the files that count together without such a file. A later file takes precedence. */
function sharedFiles(environment: string | null): string[] {
  if (process.env.CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV?.toLowerCase() === 'false') return [];
  const general = ['.env', '.env.local'];
  return environment === null ? general : [...general, `.env.${environment}`, `.env.${environment}.local`];
}

/** Reads a folder's variables for the Worker. Skips names that no binding can have, and reports them with `say`. */
export function readVariables(
  folder: string,
  environment: string | null,
  say: (words: string) => void,
): Record<string, string> {
  const read = (name: string): [string, string][] | null => {
    let text: string;
    try {
      text = readFileSync(join(folder, name), 'utf8');
    } catch {
      return null;
    }
    const given = Object.entries(parseEnv(text)) as [string, string][];
    for (const [key] of given)
      if (!NAME.test(key)) say(`${name}: ${key} is not the name of a binding, and is left out`);
    return given.filter(([key]) => NAME.test(key));
  };
  for (const name of ownFiles(environment)) {
    const given = read(name);
    if (given !== null) return Object.fromEntries(given);
  }
  return Object.fromEntries(sharedFiles(environment).flatMap((name) => read(name) ?? []));
}
