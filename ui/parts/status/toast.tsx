// Toasts, and changes that can be undone.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Failure } from '../../api.ts';

interface Toast {
  id: number;
  text: string;
  isDanger: boolean;
  undo: (() => void) | null;
}

const SHOWN_MS = 5_000;
const UNDO_MS = 10_000;
const toasts = signal<readonly Toast[]>([]);
let last = 0;

function show(toast: Omit<Toast, 'id'>, shownMs: number): () => void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { ...toast, id }];
  const remove = () => {
    toasts.value = toasts.value.filter((each) => each.id !== id);
  };
  setTimeout(remove, shownMs);
  return remove;
}

/** Shows a message: "Copied", "The app is sleeping". */
export function toast(text: string) {
  show({ text, isDanger: false, undo: null }, SHOWN_MS);
}

/** Shows the failure of an action. Aborted calls are not shown. */
export function failed(error: unknown) {
  const { name, code, message } = error as Failure;
  if (name === 'AbortError') return;
  // The failure's own message says that the page retries. Actions are not retried.
  const text =
    code === 'offline' ? 'Cellar cannot be reached. Try again when the connection is back.' : message;
  show({ text, isDanger: true, undo: null }, SHOWN_MS * 2);
}

/**
 * Lets the person undo a removal for ten seconds. The caller hides the item first. `commit` removes it after ten seconds, or
 * when the page is left. `restore` shows it again after an undo or a failure.
 */
export function undoable(text: string, commit: () => Promise<unknown>, restore: () => void) {
  let isOpen = true;
  const end = () => {
    if (!isOpen) return false;
    isOpen = false;
    clearTimeout(timer);
    removeEventListener('pagehide', run);
    hide();
    return true;
  };
  const run = () => {
    if (!end()) return;
    commit().catch((error) => {
      restore();
      failed(error);
    });
  };
  const undo = () => end() && restore();
  const hide = show({ text, isDanger: false, undo }, UNDO_MS);
  const timer = setTimeout(run, UNDO_MS);
  addEventListener('pagehide', run);
}

/** Renders the toasts. Mounted once, by `App`. */
export function Toasts() {
  const ref = useRef<HTMLDivElement>(null);
  const shown = toasts.value;
  useEffect(() => {
    // Reopens the popover, to be above a dialog that was opened before.
    ref.current!.hidePopover();
    if (shown.length > 0) ref.current!.showPopover();
  }, [shown]);
  return (
    <div role="status" aria-live="polite">
      <div ref={ref} popover="manual" class="toasts">
        {shown.map(({ id, text, isDanger, undo }) => (
          <div key={id} class={isDanger ? 'toast danger' : 'toast'}>
            <p>{text}</p>
            {undo && (
              <button type="button" class="button short" onClick={undo}>
                Undo
              </button>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}
