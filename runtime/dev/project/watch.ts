// Watches a project's folder: reports files that are saved together once, and ignores the output of builds.
import { createHash } from 'node:crypto';
import {
  accessSync,
  constants,
  type Dirent,
  existsSync,
  type FSWatcher,
  fstatSync,
  lstatSync,
  readdirSync,
  readFileSync,
  type Stats,
  statSync,
  watch,
} from 'node:fs';
import { basename, join, sep } from 'node:path';

/** Debounce time, in ms: editors write a file in several steps, which count as one save. */
const DEBOUNCE_MS = 15;
/** Files of more than this many bytes are compared only by size and modification time. */
const HASHED_BYTES = 4 * 1024 * 1024;
/** Maximum files whose fingerprint is cached. */
const CACHED_FILES_MAX = 20_000;
/** Directories without sources, at any depth. */
const IGNORED =
  /^(node_modules|\.git|\.cellar|\.wrangler|\.hg|\.svn|\.DS_Store|\.turbo|\.nx|\.cache|\.[a-z]+-cache|\.vite)$/;
/** Reports of tests, ignored directly below a package. */
const REPORTS = /^(coverage|test-results|playwright-report)$/;
/** Hidden output directories of build tools, ignored at any depth in a project with a build. */
const BUILT =
  /^\.(next|open-next|nuxt|output|svelte-kit|astro|vercel|react-router|docusaurus|vinxi|angular)$/;
/** Other output directories, ignored in a project with a build. Deeper in a package, sources may have these names. */
const BUILT_IN_PACKAGE = /^(dist|build|out|_site)$/;
/** The output of VitePress and VuePress, beside their configuration. */
const BUILT_PAGES = /(^|\/)\.(vitepress|vuepress)\/(dist|cache|\.temp)(\/|$)/;
/** Temporary files of editors, TypeScript, Vite and tsup, and logs: `cellar dev` itself may write to one. */
const SCRATCH =
  /(~|\.sw[a-p]x?|\.tmp|\.crswap|\.log|\.tsbuildinfo|\.timestamp-\d+-\w+\.mjs|\.bundled_\w+\.[cm]?js)$|^(4913|\.#.*|#.*#)$/;

export class Watch {
  readonly #folder: string;
  readonly #onChange: (paths: string[]) => void;
  readonly #onError: (error: Error) => void;
  #watcher: FSWatcher;
  /** The identity of each watched folder, as `#identityOf` returns it, by path. */
  #folders = new Map<string, string>();
  readonly #contents = new Map<string, string>();
  readonly #changed = new Set<string>();
  readonly #projectWithBuild: () => string | null;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param onChange called with the changed paths, relative to the folder
   * @param projectWithBuild returns the project's folder if the project has a build; else null. The output of a build is ignored
   * @throws {Error} of the system when it cannot watch so many directories
   */
  constructor(
    folder: string,
    onChange: (paths: string[]) => void,
    onError: (error: Error) => void,
    projectWithBuild: () => string | null = () => null,
  ) {
    this.#folder = folder;
    this.#projectWithBuild = projectWithBuild;
    this.#onChange = onChange;
    this.#onError = onError;
    this.#watcher = this.#watchAll();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watcher.close();
  }

  #watchAll(): FSWatcher {
    this.#folders.clear();
    this.#filesBelow('');
    const watcher = watch(
      this.#folder,
      { recursive: true, ignore: (path) => this.#isIgnored(path) || !isReadable(join(this.#folder, path)) },
      (event, path) => {
        if (path === null || this.#isSkipped(path)) return;
        if (event === 'rename') this.#identify(path);
        this.#take(path);
      },
    );
    return watcher.on('error', this.#onError);
  }

  /**
   * Starts a new watcher when another folder has replaced a watched one. Node may not notice this: then it keeps watching the
   * removed folder, and reports no changes in the new one.
   */
  #watchReplaced(): void {
    const replaced = [...this.#folders].filter(([path, identity]) => {
      // Whether there is a build is known only after the start. A build writes many folders, so they are forgotten here.
      const now = this.#isSkipped(path) ? null : this.#identityOf(path);
      if (now === null) this.#folders.delete(path);
      return now !== null && now !== identity;
    });
    if (replaced.length === 0) return;
    const old = this.#watcher;
    const folders = new Map(this.#folders);
    try {
      this.#watcher = this.#watchAll();
    } catch (error) {
      // With these, the next save tries again.
      this.#folders = folders;
      this.#onError(error as Error);
      return;
    }
    // The old watcher is closed last, so that no event is lost.
    old.close();
    for (const [path] of replaced) for (const file of this.#filesBelow(path)) this.#take(file);
  }

  /** Stores the identities of a folder and of all folders below it. Returns the paths of their files. */
  #filesBelow(path: string, files: string[] = []): string[] {
    this.#identify(path);
    for (const entry of entriesOf(join(this.#folder, path))) {
      const each = join(path, entry.name);
      if (this.#isSkipped(each)) continue;
      if (entry.isDirectory()) this.#filesBelow(each, files);
      else files.push(each);
    }
    return files;
  }

  #identify(path: string): void {
    const identity = this.#identityOf(path);
    if (identity === null) this.#folders.delete(path);
    else this.#folders.set(path, identity);
  }

  /** Returns the device, inode and creation time of a folder, because inodes are reused; null for a missing one or a file. */
  #identityOf(path: string): string | null {
    try {
      const stat = lstatSync(join(this.#folder, path));
      return stat.isDirectory() ? `${stat.dev} ${stat.ino} ${stat.birthtimeMs}` : null;
    } catch {
      return null;
    }
  }

  #take(path: string): void {
    if (SCRATCH.test(basename(path))) return;
    this.#changed.add(path);
    this.#timer ??= setTimeout(() => this.#report(), DEBOUNCE_MS);
  }

  /** Whether changes of a path are not reported: the output of a build, and what `#isIgnored` names. */
  #isSkipped(path: string): boolean {
    const project = this.#projectWithBuild();
    return this.#isIgnored(path) || (project !== null && this.#isBuilt(path, project));
  }

  #isIgnored(path: string): boolean {
    return foldersOf(path).some(
      ([folder, name]) => IGNORED.test(name) || (REPORTS.test(name) && this.#isPackage(folder)),
    );
  }

  /** Whether the build of the project in the folder `project` may write a path. */
  #isBuilt(path: string, project: string): boolean {
    const isBuilt = ([folder, name]: [string, string]) =>
      BUILT.test(name) ||
      (BUILT_IN_PACKAGE.test(name) && (folder === project || this.#isPackage(folder))) ||
      (name === 'target' && existsSync(join(this.#folder, folder, 'Cargo.toml')));
    return BUILT_PAGES.test(path) || foldersOf(path).some(isBuilt);
  }

  #isPackage(folder: string): boolean {
    return folder === '' || existsSync(join(this.#folder, folder, 'package.json'));
  }

  #report(): void {
    this.#watchReplaced();
    this.#timer = undefined;
    const paths = [...this.#changed].filter((path) => this.#isNew(path));
    this.#changed.clear();
    if (paths.length > 0) this.#onChange(paths);
  }

  /** Whether a file's content has changed since the last check. A build that writes the same content changes nothing. */
  #isNew(path: string): boolean {
    const content = contentOf(join(this.#folder, path));
    if (content === null || this.#contents.get(path) === content) return false;
    if (this.#contents.size > CACHED_FILES_MAX) this.#contents.clear();
    this.#contents.set(path, content);
    return true;
  }
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // It is unreadable, or was removed.
    return [];
  }
}

/** Whether a path can be watched; true for a missing one. At an unreadable path, Node stops watching the whole folder. */
function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

/** Returns each name in a path, with the path of its folder before it: `a/b` gives `['', 'a']` and `['a', 'b']`. */
function foldersOf(path: string): [string, string][] {
  const names = path.split(sep);
  return names.map((name, depth) => [names.slice(0, depth).join(sep), name]);
}

/** Returns a fingerprint of a file's content; `gone` for a missing one, null for a directory or this process's own output. */
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

/** Whether this process's stdout or stderr goes to the file. Otherwise each printed line would be a change. */
function isPrintedTo({ dev, ino }: Stats): boolean {
  return [process.stdout, process.stderr].some(({ fd }) => {
    const to = fstatSync(fd);
    return to.dev === dev && to.ino === ino;
  });
}
