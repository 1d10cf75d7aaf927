// Uncommitted changes to an app's source. They survive switching files and screens, until the page is closed or reloaded.
import { computed, type Signal, signal } from '@preact/signals';
import { keptInPage } from '../unsaved.ts';

/** A changed file. */
export interface Draft {
  path: string;
  /** The new text; null: the file is deleted. */
  text: string | null;
  /** The text on main; null: the file does not exist there. */
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
  return {
    files,
    list: computed(() => [...files.value.values()].sort((a, b) => a.path.localeCompare(b.path))),
    /** Stores typed text. A file that equals main is not a draft. */
    write(path: string, text: string, was: string | null) {
      change((next) => {
        if (text === was) next.delete(path);
        else next.set(path, { path, text, was });
      });
    },
    /** Marks a file of main as deleted, or drops the draft of a new file. */
    remove(path: string, was: string | null) {
      change((next) => {
        if (was === null) next.delete(path);
        else next.set(path, { path, text: null, was });
      });
    },
    discard(path: string) {
      change((next) => next.delete(path));
    },
    clear() {
      files.value = new Map();
    },
  };
}

/** Whether leaving the page would lose drafts. */
export function hasDrafts(): boolean {
  return [...all.values()].some((files) => files.peek().size > 0);
}
keptInPage(all, hasDrafts);
