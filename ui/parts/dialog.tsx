// A window over the page. The browser keeps the focus in it; what opened it gets it back.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { IconX } from './icons.tsx';

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

/** Put what is to be done into a `<footer>` at its end. It is closed by `onClose`, which `Esc` and a click beside it call. */
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
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it too
    <dialog
      ref={ref}
      class={large ? 'dialog large' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button look="quiet" label="Close" onClick={onClose}>
          <IconX />
        </Button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}
