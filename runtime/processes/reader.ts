// Commands of reader processes. A reader is a process that reads an app's files, which may be hostile. It runs as the app's
// user with little memory. When memory is short, the kernel ends it before apps. It ends with the host.
import { readFileSync } from 'node:fs';
import { asUser, dieWithParent, type User } from '../isolation/users.ts';
import { endFirst } from '../resources/limited.ts';
import { withDataLimit } from '../resources/process-limits.ts';

export interface ReaderOptions {
  /** The owner of the files; `null`: the host's own user. */
  user: User | null;
  /** Limit of writable memory, in bytes. Node alone reserves 560 MiB of it, although it uses only 10 MiB. */
  memoryBytes: number;
  /** Heap limit in MiB. Default: that of Node. */
  heapMb?: number;
  /** The program's `process.argv[1]`. Default: none. */
  argument?: string;
}

/** An import of names from a Node module or from a file with a relative path. Readers have no other imports. */
const IMPORT = /^import \{([^}]*)\} from '([^']+)';\n/gm;

/**
 * Joins a reader's program and the files that it imports into one text, because the process gets it as an argument.
 * All files share one scope, so their top-level names must be unique. Call this once, at the host's start.
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
    // Reinserts the file, so that it comes after the files that it imports.
    files.delete(file.href);
    files.set(file.href, own.replace(/^export /gm, ''));
  };
  add(url);
  const imports = [...imported].map(
    ([from, names]) => `import { ${[...names].join(', ')} } from '${from}';\n`,
  );
  return imports.join('') + [...files.values()].join('\n');
}

/** Returns the command of a reader, with its program as an argument: users of apps cannot read Cellar's files. */
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
