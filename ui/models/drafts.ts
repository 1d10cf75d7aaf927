// Uncommitted changes to an app's source. They survive switching files and screens, until the page is closed or reloaded.
import { computed, type Signal, signal } from '@preact/signals';
import { keptInPage } from '../unsaved.ts';

/** A changed file. */
export interface Draft {
  path: string;
  /** The new text; null: the file is deleted. */
  text: string | null;
  /** The text on main that the change began from, or a binary file's hash; null: the file did not exist there. */
  was: string | null;
}

export type Change = 'added' | 'modified' | 'deleted';

/** Returns the kind of a draft's change. */
export function changeOf({ text, was }: Draft): Change {
  return text === null ? 'deleted' : was === null ? 'added' : 'modified';
}

const all = new Map<string, Signal<ReadonlyMap<string, Draft>>>();

export function draftsOf(app: string) {
  let kept = all.get(app);
  if (kept === undefined) {
    kept = signal<ReadonlyMap<string, Draft>>(new Map());
    all.set(app, kept);
  }
  const files = kept;
  const change = (make: (next: Map<string, Draft>) => void) => {
    const next = new Map(files.peek());
    make(next);
    files.value = next;
  };
  /** Stores a draft. A file that equals main is not a draft. */
  const put = (draft: Draft) =>
    change((next) => (draft.text === draft.was ? next.delete(draft.path) : next.set(draft.path, draft)));
  return {
    files,
    list: computed(() => [...files.value.values()].sort((a, b) => a.path.localeCompare(b.path))),
    /** Stores typed text. `was` is the text on main; only the first change of a file uses it, and later changes keep it. */
    write(path: string, text: string, was: string | null) {
      put({ was, ...files.peek().get(path), path, text });
    },
    /** Marks a file of main as deleted, or drops the draft of a new file. */
    remove(path: string, was: string | null) {
      put({ path, text: null, was });
    },
    /** Sets the text on main that a draft is compared with. Does nothing for a file without a draft. */
    setMain(path: string, was: string | null) {
      const draft = files.peek().get(path);
      if (draft) put({ ...draft, was });
    },
    discard(path: string) {
      change((next) => next.delete(path));
    },
  };
}

/** Whether leaving the page would lose drafts. */
export function hasDrafts(): boolean {
  return [...all.values()].some((files) => files.peek().size > 0);
}
keptInPage(all, hasDrafts);
