// A window over the page. The browser keeps the focus in it and gives it back.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { IconX } from './icons.tsx';

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
    dialog.showModal();
    dialog.querySelector<HTMLElement>('[autofocus], .body input, .body textarea')?.focus();
    return () => dialog.close();
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
