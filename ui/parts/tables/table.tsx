// Tables, which become two-line lists below 720 px.
import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  /** The column's heading. */
  name: string;
  /** Shows the heading to screen readers only. */
  silent?: boolean;
  cell: (row: Row) => ComponentChildren;
  /** The cells are numbers with their units: right-aligned. */
  number?: boolean;
  /** The column takes the remaining width, and long text is cut. */
  wide?: boolean;
  /** Text before the value in the list of a small screen: "p99 12 ms". */
  label?: string;
  /** Hidden on a small screen. */
  skipSmall?: boolean;
}

/**
 * A table. The first column identifies the row. Put its link there, with `class="main-cell"`: a click anywhere in the row
 * follows it, and the keys `j` and `k` move between rows.
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
  /** Describes the content, for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** Stays a table on a small screen. */
  stays?: boolean;
  isSelected?: (row: Row) => boolean;
  /** Whether to highlight a row as new. */
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

/** Follows the row's link on a click, unless the click is on another control or selects text. */
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
