// Buttons, and links styled as buttons.
import type { AriaAttributes, ComponentChildren, Ref } from 'preact';
import { useState } from 'preact/hooks';
import { type Role, refusal, role } from '../../role.ts';
import { href, type Query, type Route } from '../../router.ts';
import { IconTrash2 } from '../icons.tsx';
import { failed } from '../status/toast.tsx';

export interface ButtonLook {
  /** `primary`: the main action. `danger`: a destructive action. `quiet`: without a border. */
  look?: 'primary' | 'danger' | 'quiet' | 'danger primary';
  /** Makes the button less high, for rows and panel headers. */
  short?: boolean;
  /** For an icon without text: the accessible name and tooltip. */
  label?: string;
}

function classOf({ look, short, label }: ButtonLook): string {
  return ['button', look, short && 'short', label !== undefined && 'square'].filter(Boolean).join(' ');
}

type ButtonProps = ButtonLook & {
  /** While the returned promise is pending, the button is disabled. A rejection is shown as a toast. */
  onClick?: (event: MouseEvent) => unknown;
  type?: 'button' | 'submit';
  disabled?: boolean;
  /** Focuses the button when its dialog opens. */
  autofocus?: boolean;
  /** The role that the action needs on the current app. Without it the button is disabled, and its tooltip says why. */
  needs?: Role;
  children: ComponentChildren;
  buttonRef?: Ref<HTMLButtonElement>;
} & Pick<
    AriaAttributes,
    'aria-expanded' | 'aria-haspopup' | 'aria-controls' | 'aria-pressed' | 'aria-describedby'
  >;

/** A button. Its text names the action: "Roll back to this deploy". */
export function Button({
  look,
  short,
  label,
  onClick,
  type = 'button',
  disabled,
  autofocus,
  needs,
  children,
  buttonRef,
  ...aria
}: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const refused = needs === undefined ? null : refusal(needs, role.value);
  const run = async (event: MouseEvent) => {
    const done = onClick?.(event);
    if (!(done instanceof Promise)) return;
    setBusy(true);
    try {
      await done;
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      {...aria}
      ref={buttonRef ?? null}
      type={type}
      class={classOf({ look, short, label })}
      disabled={disabled || busy || refused !== null}
      autofocus={autofocus}
      aria-label={label}
      title={refused ?? label}
      onClick={run}
    >
      {children}
    </button>
  );
}

/** A link to a screen. */
export function Link({
  to,
  query,
  class: name,
  current,
  children,
}: {
  to: Route;
  query?: Query;
  class?: string;
  /** Whether it links to the current screen. */
  current?: boolean;
  children: ComponentChildren;
}) {
  return (
    <a href={href(to, query)} class={name} aria-current={current ? 'page' : undefined}>
      {children}
    </a>
  );
}

/** A link to a screen or an external URL, styled as a button. */
export function LinkButton({
  to,
  query,
  url,
  look,
  short,
  label,
  children,
}: ButtonLook & {
  children: ComponentChildren;
} & ({ to: Route; query?: Query; url?: never } | { url: string; to?: never; query?: never })) {
  const name = classOf({ look, short, label });
  const outside = url !== undefined ? { target: '_blank', rel: 'noreferrer' } : {};
  return (
    <a class={name} href={url ?? href(to!, query)} aria-label={label} title={label} {...outside}>
      {children}
    </a>
  );
}

/** A button that removes a list item. Its label names the action and the item: "Revoke laptop". */
export function RemoveButton(props: Pick<ButtonProps, 'onClick' | 'needs'> & { label: string }) {
  return (
    <Button look="quiet" short {...props}>
      <IconTrash2 />
    </Button>
  );
}
