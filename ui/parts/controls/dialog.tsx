// A window over the page. The browser keeps the focus in it; what opened it gets it back.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { mayDrop } from '../../unsaved.ts';
import { IconX } from '../icons.tsx';
import { Button } from './button.tsx';

/**
 * Shows a window that keeps the focus in it.
 * @returns ends it, and gives the focus back to what had it before: the browser does so only for a window that is still in the page
 */
export function showModal(dialog: HTMLDialogElement): () => void {
  const opener = document.activeElement;
  dialog.showModal();
  return () => {
    dialog.close();
    // Where nothing else has taken it, such as the page that was chosen in the window.
    if (document.activeElement === document.body && opener instanceof HTMLElement) opener.focus();
  };
}

/**
 * Put what is to be done into a `<footer>` at its end. It is closed by `onClose`. `Esc`, a click beside it and its cross
 * call that too, after they asked about text that would be lost.
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
      // Browsers close a window at the second `Esc` in a row whatever `onCancel` does.
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
