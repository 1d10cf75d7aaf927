// Toasts, and changes that can be undone.
import { useEffect, useRef } from 'preact/hooks';
import type { Failure } from '../../api.ts';
import { show, toasts } from '../../models/toasts.ts';
import { removeLater, UNDO_MS } from '../../removals.ts';

const SHOWN_MS = 5_000;

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
 * Lets the person undo a removal for ten seconds, or until the next write. The caller hides the item first. `commit` removes
 * it. `restore` shows it again after an undo or a failure.
 */
export function undoable(text: string, commit: () => Promise<unknown>, restore: () => void) {
  const cancel = removeLater(async () => {
    hide();
    try {
      await commit();
    } catch (error) {
      restore();
      failed(error);
    }
  });
  const undo = () => {
    hide();
    if (cancel()) restore();
  };
  const hide = show({ text, isDanger: false, undo }, UNDO_MS);
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
