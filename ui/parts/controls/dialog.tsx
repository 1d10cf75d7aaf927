// A modal dialog. It traps the focus. When it closes, the focus returns to the element that had it before.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { mayDrop } from '../../unsaved.ts';
import { IconX } from '../icons.tsx';
import { Button } from './button.tsx';

/**
 * Shows a dialog that traps the focus.
 * @returns a function that closes the dialog and restores the focus. Browsers restore it only for a dialog that is still in
 * the page.
 */
export function showModal(dialog: HTMLDialogElement): () => void {
  const opener = document.activeElement;
  dialog.showModal();
  return () => {
    dialog.close();
    // If another element has the focus already, keeps that, such as on a screen that the dialog has opened.
    if (document.activeElement === document.body && opener instanceof HTMLElement) opener.focus();
  };
}

/**
 * A modal dialog. Put actions into a `<footer>` at the end. `Esc`, a click outside and the cross call `onClose`, after
 * asking about unsaved text. `onClose` must stop rendering the dialog.
 */
export function Dialog({
  title,
  onClose,
  large = false,
  children,
}: {
  title: string;
  onClose: () => void;
  large?: boolean;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    const end = showModal(dialog);
    dialog.querySelector<HTMLElement>('[autofocus], .body input, .body textarea')?.focus();
    return end;
  }, []);
  const leave = () => mayDrop(ref.current!) && onClose();
  return (
    <dialog
      ref={ref}
      class={large ? 'dialog large' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        leave();
      }}
      // Browsers close a dialog at the second `Esc` in a row, whatever `onCancel` does.
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || event.isComposing || event.defaultPrevented) return;
        event.preventDefault();
        leave();
      }}
      onClick={(event) => event.target === ref.current && leave()}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button look="quiet" label="Close" onClick={leave}>
          <IconX />
        </Button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}

/** A dialog with a form. `action` is the text of its submit button. */
export function FormDialog({
  title,
  action,
  disabled = false,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  action: string;
  disabled?: boolean;
  onSubmit: (event: SubmitEvent) => void;
  onClose: () => void;
  children: ComponentChildren;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        {children}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={disabled}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
