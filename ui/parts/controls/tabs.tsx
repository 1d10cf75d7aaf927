// Switches between views of the same thing.
import { href, type Query, type Route } from '../../router.ts';

/** Links to views. Each view is a screen, or a value in the query. */
export function Tabs({
  label,
  tabs,
}: {
  label: string;
  tabs: readonly { text: string; to: Route; query?: Query; current: boolean }[];
}) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ text, to, query, current }) => (
        <a key={text} href={href(to, query)} aria-current={current ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

/** Buttons that select one of a few values: a range, a status, a level. */
export function Segments<Value extends string>({
  label,
  value,
  onValue,
  options,
}: {
  label: string;
  value: Value;
  onValue: (value: Value) => void;
  options: readonly (readonly [Value, string])[];
}) {
  return (
    <fieldset class="segments" aria-label={label}>
      {options.map(([each, words]) => (
        <button key={each} type="button" aria-pressed={each === value} onClick={() => onValue(each)}>
          {words}
        </button>
      ))}
    </fieldset>
  );
}
