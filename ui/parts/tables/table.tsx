// Tables, which become lists of two lines below 720 px.
import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  /** Its head. For screen readers alone when `silent`. */
  name: string;
  silent?: boolean;
  cell: (row: Row) => ComponentChildren;
  /** A number: at the right, with its unit. */
  number?: boolean;
  /** Takes what the others leave, and is cut at its end. */
  wide?: boolean;
  /** Stands before the value in the list of a small screen: "p99 12 ms". */
  label?: string;
  /** Left out on a small screen. */
  skipSmall?: boolean;
}

/**
 * A table. The first column says what a row is; put the link to it there, with `class="main-cell"`: a click anywhere in the
 * row follows it, and the keys `j` and `k` go from row to row.
 */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  stays = false,
  isSelected,
  isNew,
}: {
  /** What is in it, for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** It stays a table on a small screen. */
  stays?: boolean;
  isSelected?: (row: Row) => boolean;
  /** It has come since the list was read: it glows once. */
  isNew?: (row: Row) => boolean;
}) {
  return (
    <table class={stays ? 'table stays' : 'table'} aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" class={column.number ? 'number' : undefined}>
              {column.silent ? <span class="unseen">{column.name}</span> : column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr
            key={keyOf(row)}
            data-row
            class={isNew?.(row) ? 'glow' : undefined}
            onClick={follow}
            aria-selected={isSelected?.(row)}
          >
            {columns.map((column) => (
              <td key={column.name} class={classOf(column)} data-label={column.label}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function classOf({ number, wide, skipSmall }: Column<never>): string | undefined {
  return (
    [number && 'number', wide && 'wide', skipSmall && 'skip-small'].filter(Boolean).join(' ') || undefined
  );
}

/** A click into a row follows its link, unless it was meant for something else in it or selects text. */
function follow(event: MouseEvent & { currentTarget: HTMLElement }) {
  if (
    (event.target as Element).closest('a, button, input, select, label') ||
    getSelection()?.type === 'Range'
  )
    return;
  const link = event.currentTarget.querySelector<HTMLAnchorElement>('a.main-cell');
  if (!link) return;
  if (event.metaKey || event.ctrlKey) window.open(link.href);
  else link.click();
}
