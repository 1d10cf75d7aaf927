// The toasts that are shown.
import { signal } from '@preact/signals';

interface Toast {
  id: number;
  text: string;
  isDanger: boolean;
  undo: (() => void) | null;
}

export const toasts = signal<readonly Toast[]>([]);
let last = 0;

/** Shows a toast for a time in ms. @returns a function that hides it earlier */
export function show(toast: Omit<Toast, 'id'>, shownMs: number): () => void {
  const id = ++last;
  // A removal takes place after ten seconds, so its undo must stay that long.
  const kept = toasts.value.filter(({ undo }, i, all) => undo !== null || i >= all.length - 3);
  toasts.value = [...kept, { ...toast, id }];
  const remove = () => {
    toasts.value = toasts.value.filter((each) => each.id !== id);
  };
  setTimeout(remove, shownMs);
  return remove;
}
