// A large number with its name.
import type { ComponentChildren } from 'preact';

/** Several figures side by side. */
export function Figures({ children }: { children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>;
}

/** @param props.note shown below the value, such as its change */
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
  /** Shown beside the value, such as a sparkline. */
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
