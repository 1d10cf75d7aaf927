// The source of an app: files of a commit, the open file, and uncommitted changes.
import { computed, effect, signal } from '@preact/signals';
import { api, Failure, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { queryOf } from '../../router.ts';
import { session } from '../../session.ts';
import { type Draft, draftsOf } from '../drafts.ts';
import { bytesOf, textOf } from './blob.ts';
import { buildTree, filterFiles, foldersOf, type TreeFile } from './tree.ts';

/** Maximum files read of a tree. */
const FILES = 10_000;
/** Drafts compared with main at the same time. The host reads this many files at once for an account. */
const COMPARED_AT_ONCE = 4;

/** A file at a commit. */
export interface OpenFile {
  path: string;
  /** The requested branch, tag or commit; empty: main. */
  ref: string;
  size: number;
  /** Null for a binary file. */
  text: string | null;
  /** What a draft of the file begins from. */
  base: string;
  /** Data URL of an image; null for other files. */
  image: string | null;
  /** Whether only the beginning was read. */
  isCut: boolean;
}

/** The expanded folders of the file tree, by app. They survive switching files. */
const openFolders = new Map<string, Set<string>>();

/** @param path the path of the open file; empty for none. The query has its commit (`ref`; default: main). */
export function sourceModel(app: string, path: string) {
  const ref = computed(() => queryOf('ref'));
  const drafts = draftsOf(app);
  const tree = resource(async (signal) => {
    const at = ref.peek();
    const read = await api(
      'source.tree',
      { id: app, recursive: true, limit: FILES, ...(at && { ref: at }) },
      { signal },
    );
    return { ref: at, sha: read.sha, items: read.items, isCut: read.next_cursor !== null };
  });
  const draft = computed(() => (ref.value === '' ? (drafts.files.value.get(path) ?? null) : null));
  const file = resource<OpenFile | null>(async (signal) => {
    // A new file exists only as a draft.
    if (path === '' || draft.peek()?.was === null) return null;
    const at = ref.peek();
    return openFile(await api('source.blob', { id: app, path, ...(at && { ref: at }) }, { signal }), at);
  });
  /** Changes on main that are not live; null while a file or another commit is open. */
  const ahead = resource(async (signal) =>
    path === '' && ref.peek() === '' ? api('source.diff', { id: app }, { signal }) : null,
  );
  let before = ref.peek();
  const watch = effect(() => {
    const at = ref.value;
    if (at === before) return;
    before = at;
    void tree.refresh();
    void file.refresh();
    void ahead.refresh();
  });

  /**
   * Compares drafts with main as it was read last. A draft of a file that changed there gets main's text as its new base.
   * @returns the commit of main; null without one
   * @throws {Failure} names the files that others have changed
   */
  const compare = async (list: readonly Draft[]): Promise<string | null> => {
    const main = tree.data.peek();
    if (main?.ref !== '') throw new Failure('Main is not read yet. Try again in a moment.', null, 0);
    const { sha } = main;
    const texts = new Map<string, string | null>();
    const next = list.values();
    const read = async () => {
      for (const draft of next) texts.set(draft.path, sha === null ? null : await mainBase(app, draft, sha));
    };
    // No base moves before all files are read: a failure would hide which files changed, and the next commit overwrite them.
    await Promise.all(Array.from({ length: COMPARED_AT_ONCE }, read));
    const changed = list.filter(({ path, was }) => texts.get(path) !== was).map(({ path }) => path);
    if (changed.length === 0) return sha;
    for (const path of changed) drafts.setMain(path, texts.get(path) ?? null);
    // The editor shows the text on main if the person discards the draft.
    if (changed.includes(path)) void file.refresh();
    const words = `${changed.join(', ')} changed on main after you began. The difference to main is shown here now. Commit again to keep your text, or close this and change it.`;
    throw new Failure(words, null, 0);
  };

  const open = openFolders.get(app) ?? new Set<string>();
  openFolders.set(app, open);
  for (const folder of foldersOf(path)) open.add(folder);
  const folders = signal<ReadonlySet<string>>(new Set(open));
  const files = computed<TreeFile[]>(() => {
    const items: TreeFile[] = tree.data.value?.items ?? [];
    if (ref.value !== '') return items;
    const known = new Set(items.map((item) => item.path));
    const added = drafts.list.value.filter((each) => each.was === null && !known.has(each.path));
    return [...items, ...added.map((each) => ({ path: each.path, size: null }))];
  });
  const filter = computed(() => queryOf('q').trim());
  const found = computed(() => filterFiles(files.value, filter.value));
  return {
    ref,
    drafts,
    draft,
    tree,
    file,
    ahead,
    files,
    found,
    filter,
    nodes: computed(() => buildTree(found.value)),
    folders,
    toggle(folder: string) {
      if (!open.delete(folder)) open.add(folder);
      folders.value = new Set(open);
    },
    /**
     * Commits all drafts to main.
     * @returns the id of the deploy that this starts
     * @throws {Failure} also when another person has changed one of the files
     */
    async commit(message: string): Promise<string> {
      const { name, email } = session.peek()!.account;
      const sent = drafts.list.peek();
      const parent = await compare(sent);
      const { deploy_id } = await api('source.commit', {
        id: app,
        message,
        author_name: name,
        author_email: email,
        ...(parent !== null && { parent }),
        files: sent.map(({ path, text }) =>
          text === null ? { path, delete: true as const } : { path, content: text },
        ),
      });
      // What the person typed meanwhile stays.
      for (const { path, text } of sent) drafts.setMain(path, text);
      return deploy_id;
    },
    /** Reads main again, and compares all drafts with it. @throws {Failure} as `commit`, and when main cannot be read */
    async readAgain(): Promise<void> {
      await tree.refresh();
      const failure = tree.failure.peek();
      if (failure !== null) throw failure;
      await compare(drafts.list.peek());
    },
    close() {
      watch();
      tree.close();
      file.close();
      ahead.close();
    },
  };
}

/**
 * Returns what a draft is compared with at a commit; null when the file does not exist there.
 * @throws {Failure} for new text of a binary file, which would be overwritten unseen
 */
async function mainBase(app: string, { path, text }: Draft, ref: string): Promise<string | null> {
  try {
    const blob = await api('source.blob', { id: app, path, ref });
    if (text === null || textOf(blob) !== null) return baseOf(blob);
  } catch (error) {
    if ((error as Failure).code === 'path_not_found') return null;
    throw error;
  }
  const words = `${path} is a binary file on main now. Discard your change of it, or change the file with git.`;
  throw new Failure(words, null, 0);
}

/** Returns the text of a file. For a binary file, the blob's hash shows whether the file has changed. */
function baseOf(blob: Result<'source.blob'>): string {
  return textOf(blob) ?? `Binary file ${blob.sha}`;
}

function openFile(blob: Result<'source.blob'>, ref: string): OpenFile {
  const { path, size, content_type, content_base64 } = blob;
  const bytes = bytesOf(content_base64);
  return {
    path,
    ref,
    size,
    text: textOf(blob),
    base: baseOf(blob),
    image: content_type.startsWith('image/') ? `data:${content_type};base64,${content_base64}` : null,
    isCut: bytes.length < size,
  };
}
