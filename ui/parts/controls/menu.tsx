// A button that opens a menu.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Icon } from '../icons.tsx';
import { failed } from '../status/toast.tsx';
import { Button, type ButtonLook } from './button.tsx';

/** An action, a link, or `null` for a separator. */
export type MenuItem =
  | { text: string; icon?: Icon; danger?: boolean; run: () => unknown }
  | { text: string; icon?: Icon; href: string }
  | null;

/** @param props.button content of the button; an icon alone needs `label` too */
export function Menu({
  button,
  items,
  left = false,
  ...look
}: ButtonLook & {
  button: ComponentChildren;
  items: readonly MenuItem[];
  /** Aligns the menu with the button's left edge, so that it extends to the right. */
  left?: boolean;
}) {
  const [isOpen, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    const close = (event: Event) => ref.current?.contains(event.target as Node) || setOpen(false);
    document.addEventListener('pointerdown', close);
    ref.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    return () => document.removeEventListener('pointerdown', close);
  }, [isOpen]);
  const shut = () => {
    setOpen(false);
    opener.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const entries = [...ref.current!.querySelectorAll<HTMLElement>('[role=menuitem]')];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === 'Escape') shut();
    else if (event.key === 'Tab') setOpen(false);
    else if (to !== undefined) entries.at(to % entries.length)?.focus();
    if (event.key === 'Escape' || to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it handles keys for the menu inside
    <div ref={ref} class={left ? 'menu left' : 'menu'} onKeyDown={onKeyDown}>
      <Button
        {...look}
        buttonRef={opener}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {button}
      </Button>
      {isOpen && (
        <div class="items" role="menu">
          {items.map((item, i) =>
            item === null ? (
              <hr key={i} />
            ) : 'href' in item ? (
              <a key={item.text} role="menuitem" href={item.href} onClick={() => setOpen(false)}>
                {item.icon && <item.icon />}
                {item.text}
              </a>
            ) : (
              <button
                key={item.text}
                type="button"
                role="menuitem"
                class={item.danger ? 'danger' : undefined}
                onClick={() => {
                  shut();
                  Promise.resolve(item.run()).catch(failed);
                }}
              >
                {item.icon && <item.icon />}
                {item.text}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
