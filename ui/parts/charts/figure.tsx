// A figure with its name: a number that is read from across the room.
import type { ComponentChildren } from 'preact';

/** Several of them, side by side. */
export function Figures({ children }: { children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>;
}

/** @param props.note beneath it: how it changed, of what it is a part */
export function Figure({
  name,
  value,
  note,
  drawing,
  look,
}: {
  name: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  /** A sparkline. */
  drawing?: ComponentChildren;
  look?: 'danger' | 'warn';
}) {
  return (
    <div class={look ? `figure ${look}` : 'figure'}>
      <dt>{name}</dt>
      <dd>
        <span class="value">{value}</span>
        {drawing}
      </dd>
      {note && <dd class="note">{note}</dd>}
    </div>
  );
}
