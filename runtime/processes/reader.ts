// How a process is started that reads an app's files. They may be the work of an attacker: it runs as the app's user, with little
// memory, is ended before apps when memory is short, and ends with the host.
import { readFileSync } from 'node:fs';
import { asUser, dieWithParent, type User } from '../isolation/users.ts';
import { endFirst } from '../resources/limited.ts';
import { withDataLimit } from '../resources/process-limits.ts';

export interface ReaderOptions {
  /** Whose the files are; `null`: the host's own user. */
  user: User | null;
  /** Memory that it may write to: Node reserves 560 MiB of it and uses 10. */
  memoryBytes: number;
  /** MiB of JavaScript objects. Default: as Node has it. */
  heapMb?: number;
  /** What its program finds in `process.argv[1]`. Default: nothing. */
  argument?: string;
}

/** An import of names from one of Node's modules, or from a file beside: readers import nothing else. */
const IMPORT = /^import \{([^}]*)\} from '([^']+)';\n/gm;

/**
 * The text of a reader's program, with that of the files beside it that it imports. No name at the top level of these may
 * stand there twice. It is read once, at the host's start.
 */
export function readerProgram(url: URL): string {
  const imported = new Map<string, Set<string>>();
  const files = new Map<string, string>();
  const add = (file: URL) => {
    if (files.has(file.href)) return;
    files.set(file.href, '');
    const own = readFileSync(file, 'utf8').replace(IMPORT, (_, names: string, from: string) => {
      if (from.startsWith('.')) add(new URL(from, file));
      else imported.set(from, new Set([...(imported.get(from) ?? []), ...names.match(/\w+/g)!]));
      return '';
    });
    // What it imports stands before it.
    files.delete(file.href);
    files.set(file.href, own.replace(/^export /gm, ''));
  };
  add(url);
  const imports = [...imported].map(
    ([from, names]) => `import { ${[...names].join(', ')} } from '${from}';\n`,
  );
  return imports.join('') + [...files.values()].join('\n');
}

/** The words that start a reader. Its program is among them: users of apps can read none of Cellar's files. */
export function readerWords(
  program: string,
  { user, memoryBytes, heapMb, argument }: ReaderOptions,
): string[] {
  return [
    ...endFirst(),
    ...(user === null ? dieWithParent() : asUser(user)),
    ...withDataLimit(memoryBytes),
    process.execPath,
    '--no-warnings',
    ...(heapMb === undefined ? [] : [`--max-old-space-size=${heapMb}`]),
    '--input-type=module',
    `--eval=${program}`,
    ...(argument === undefined ? [] : ['--', argument]),
  ];
}
