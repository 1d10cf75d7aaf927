// Buttons, and links that look like them.
import type { AriaAttributes, ComponentChildren, Ref } from 'preact';
import { useState } from 'preact/hooks';
import { type Role, refusal, role } from '../../role.ts';
import { href, type Query, type Route } from '../../router.ts';
import { IconTrash2 } from '../icons.tsx';
import { failed } from '../status/toast.tsx';

export interface ButtonLook {
  /** `primary`: the one thing to do here. `danger`: takes something away. `quiet`: without a frame. */
  look?: 'primary' | 'danger' | 'quiet' | 'danger primary';
  /** A lower one, for rows and heads of panels. */
  short?: boolean;
  /** An icon alone: its name for screen readers and on hover. */
  label?: string;
}

function classOf({ look, short, label }: ButtonLook): string {
  return ['button', look, short && 'short', label !== undefined && 'square'].filter(Boolean).join(' ');
}

type ButtonProps = ButtonLook & {
  /** While its promise runs the button is off. A failure of it is told by a toast. */
  onClick?: (event: MouseEvent) => unknown;
  type?: 'button' | 'submit';
  disabled?: boolean;
  /** The role on the app that is shown without which the button is off, and says why. */
  needs?: Role;
  children: ComponentChildren;
  buttonRef?: Ref<HTMLButtonElement>;
} & Pick<
    AriaAttributes,
    'aria-expanded' | 'aria-haspopup' | 'aria-controls' | 'aria-pressed' | 'aria-describedby'
  >;

/** A button. Its words say what it does: "Roll back to this deploy". */
export function Button({
  look,
  short,
  label,
  onClick,
  type = 'button',
  disabled,
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
  /** It is the screen that one is on. */
  current?: boolean;
  children: ComponentChildren;
}) {
  return (
    <a href={href(to, query)} class={name} aria-current={current ? 'page' : undefined}>
      {children}
    </a>
  );
}

/** A link to a screen, or to an address outside, that looks like a button. */
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

/** Takes one thing of a list away. Its label names the act and the thing: "Revoke laptop". */
export function RemoveButton(props: Pick<ButtonProps, 'onClick' | 'needs'> & { label: string }) {
  return (
    <Button look="quiet" short {...props}>
      <IconTrash2 />
    </Button>
  );
}
