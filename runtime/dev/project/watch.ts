// Tells of changes in a project's folder: once for all that is saved together, and not of what a build writes.
import { createHash } from 'node:crypto';
import { type FSWatcher, fstatSync, readFileSync, type Stats, statSync, watch } from 'node:fs';
import { basename, join, sep } from 'node:path';

/** Editors write a file in several steps: what comes so soon after the first is one save, in ms. */
const TOGETHER_MS = 15;
/** Files above this are told apart by their size and time alone, in bytes. */
const HASHED_BYTES = 4 * 1024 * 1024;
/** Files whose content is remembered. */
const REMEMBERED = 20_000;
/** Folders that no source lies in. */
const NEVER =
  /^(node_modules|\.git|\.cellar|\.wrangler|\.hg|\.svn|\.DS_Store|coverage|\.turbo|\.cache|\.vite)$/;
/** Folders that build tools write, for a project with a build. */
const BUILT =
  /^(dist|build|out|\.next|\.open-next|\.nuxt|\.output|\.svelte-kit|\.astro|\.vercel|\.react-router|_site)$/;
/** What editors leave beside a file, and logs: one of them may be what `cellar dev` itself prints. */
const SCRATCH = /(~|\.sw[a-p]x?|\.tmp|\.crswap|\.log)$|^(4913|\.#.*|#.*#)$/;

export class Watch {
  readonly #folder: string;
  readonly #onChange: (paths: string[]) => void;
  readonly #watcher: FSWatcher;
  readonly #contents = new Map<string, string>();
  readonly #changed = new Set<string>();
  readonly #hasBuild: () => boolean;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param onChange is told the paths that have changed, from the folder
   * @param hasBuild whether the project has a build, whose folders are not watched then
   * @throws {Error} of the system when it cannot watch so many folders
   */
  constructor(
    folder: string,
    onChange: (paths: string[]) => void,
    onError: (error: Error) => void,
    hasBuild: () => boolean = () => false,
  ) {
    this.#folder = folder;
    this.#hasBuild = hasBuild;
    this.#onChange = onChange;
    this.#watcher = watch(
      folder,
      { recursive: true, ignore: (path) => path.split(sep).some((name) => NEVER.test(name)) },
      (_, path) => {
        if (path !== null) this.#take(path);
      },
    );
    this.#watcher.on('error', onError);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watcher.close();
  }

  #take(path: string): void {
    if (SCRATCH.test(basename(path)) || path.split(sep).some((name) => NEVER.test(name))) return;
    if (this.#hasBuild() && BUILT.test(path.split(sep, 1)[0]!)) return;
    this.#changed.add(path);
    this.#timer ??= setTimeout(() => this.#tell(), TOGETHER_MS);
  }

  #tell(): void {
    this.#timer = undefined;
    const paths = [...this.#changed].filter((path) => this.#isNew(path));
    this.#changed.clear();
    if (paths.length > 0) this.#onChange(paths);
  }

  /** Whether a file has another content than when it was looked at last. A build that writes the same again changes nothing. */
  #isNew(path: string): boolean {
    const content = contentOf(join(this.#folder, path));
    if (content === null || this.#contents.get(path) === content) return false;
    if (this.#contents.size > REMEMBERED) this.#contents.clear();
    this.#contents.set(path, content);
    return true;
  }
}

/** What changes with a file's content; null for a folder and for the file that this process prints to, `gone` for what is not there. */
function contentOf(path: string): string | null {
  try {
    const stat = statSync(path);
    if (stat.isDirectory() || isPrintedTo(stat)) return null;
    if (!stat.isFile() || stat.size > HASHED_BYTES) return `${stat.size} ${stat.mtimeMs}`;
    return createHash('sha256').update(readFileSync(path)).digest('base64');
  } catch {
    return 'gone';
  }
}

/** Whether a file is where this process prints to: each of its lines would be a change. */
function isPrintedTo({ dev, ino }: Stats): boolean {
  return [process.stdout, process.stderr].some(({ fd }) => {
    const to = fstatSync(fd);
    return to.dev === dev && to.ino === ino;
  });
}
