// An editable grid of SQL rows with a sticky header.
import { useEffect, useRef, useState } from 'preact/hooks';
import { cellOf, type SqlValue, textOf } from '../../models/storage/values.ts';
import { Button } from '../controls/button.tsx';
import { IconArrowDown, IconArrowUp, IconTrash2, IconUndo2 } from '../icons.tsx';

export interface GridColumn {
  name: string;
  /** The type that the table declares. */
  type?: string;
  isKey?: boolean;
}

interface GridProps {
  label: string;
  columns: readonly GridColumn[];
  rows: readonly (readonly SqlValue[])[];
  /** Returns the key of a row; by default, its position. */
  keyOf?: (row: readonly SqlValue[], i: number) => string;
  /** The column to sort by; a leading `-` sorts in descending order. */
  sort?: string;
  /** Called with the new `sort`. With it, the column heads are buttons. */
  onSort?: (sort: string) => void;
  /** Makes cells editable. */
  edit?: {
    valueOf: (row: readonly SqlValue[], column: string) => SqlValue;
    isChanged: (row: readonly SqlValue[], column: string) => boolean;
    isDeleted: (row: readonly SqlValue[]) => boolean;
    canChange: (row: readonly SqlValue[], column: string) => boolean;
    set: (row: readonly SqlValue[], column: string, text: string | null) => void;
    toggleDelete: (row: readonly SqlValue[]) => void;
  };
}

/** A grid of cells. Arrow keys move between cells, `Enter` or `F2` edits, `Delete` sets NULL, `Esc` cancels. */
export function Grid({ label, columns, rows, keyOf, sort = '', onSort, edit }: GridProps) {
  const ref = useRef<HTMLTableElement>(null);
  const [at, setAt] = useState({ row: 0, column: 0 });
  // Names the row by its key, so that the editor stays in that row when the rows are read again.
  const [editing, setEditing] = useState<{ key: string; column: number } | null>(null);
  const rowKeys = rows.map((row, i) => keyOf?.(row, i) ?? String(i));
  const open = (row: number, column: number) => setEditing({ key: rowKeys[row]!, column });
  const focus = (row: number, column: number) => {
    const to = {
      row: Math.max(0, Math.min(row, rows.length - 1)),
      column: Math.max(0, Math.min(column, columns.length - 1)),
    };
    setAt(to);
    ref.current?.querySelector<HTMLElement>(`[data-at="${to.row} ${to.column}"]`)?.focus();
  };
  const may = (row: number, column: number) => edit?.canChange(rows[row]!, columns[column]!.name) ?? false;
  const onKeyDown = (event: KeyboardEvent) => {
    if ((editing && rowKeys.includes(editing.key)) || !(event.target as HTMLElement).dataset.at) return;
    const { row, column } = at;
    const keys: Record<string, () => void> = {
      ArrowDown: () => focus(row + 1, column),
      ArrowUp: () => focus(row - 1, column),
      ArrowRight: () => focus(row, column + 1),
      ArrowLeft: () => focus(row, column - 1),
      Home: () => focus(row, 0),
      End: () => focus(row, columns.length - 1),
      ...(may(row, column) && {
        Enter: () => open(row, column),
        F2: () => open(row, column),
        Delete: () => edit!.set(rows[row]!, columns[column]!.name, null),
      }),
    };
    const act = keys[event.key];
    if (!act || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const done = (row: number, column: number, change?: () => void) => {
    change?.();
    setEditing(null);
    requestAnimationFrame(() => focus(row, column));
  };
  return (
    <div class="grid-box">
      {/* biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a grid is a table whose cells take the focus */}
      <table ref={ref} class="grid" role="grid" aria-label={label} onKeyDown={onKeyDown}>
        <thead>
          <tr>
            {columns.map(({ name, type, isKey }, j) => {
              const order = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : undefined;
              const words = (
                <>
                  <span class="name">{name}</span>
                  {type !== undefined && (
                    <span class="type">
                      {[type.toLowerCase() || 'any', isKey && 'key'].filter(Boolean).join(', ')}
                    </span>
                  )}
                  {order === 'ascending' && <IconArrowUp size={12} />}
                  {order === 'descending' && <IconArrowDown size={12} />}
                </>
              );
              const first = rows.find((row) => row[j] !== null && row[j] !== undefined)?.[j] ?? null;
              const isNumber = cellOf(first).kind === 'number';
              return (
                <th key={name} scope="col" aria-sort={order} class={isNumber ? 'number' : undefined}>
                  {onSort ? (
                    <button
                      type="button"
                      onClick={() =>
                        onSort(order === 'ascending' ? `-${name}` : order === 'descending' ? '' : name)
                      }
                    >
                      {words}
                    </button>
                  ) : (
                    <span>{words}</span>
                  )}
                </th>
              );
            })}
            {edit && (
              <th>
                <span class="unseen">Delete</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={rowKeys[i]} class={edit?.isDeleted(row) ? 'deleted' : undefined}>
              {columns.map(({ name }, j) => {
                const value = edit ? edit.valueOf(row, name) : (row[j] ?? null);
                const { kind, text } = cellOf(value);
                const isEdited = editing !== null && editing.key === rowKeys[i] && editing.column === j;
                return (
                  // biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles the keys
                  <td
                    key={name}
                    data-at={`${i} ${j}`}
                    tabIndex={at.row === i && at.column === j ? 0 : -1}
                    class={[`v-${kind}`, edit?.isChanged(row, name) && 'changed', isEdited && 'editing']
                      .filter(Boolean)
                      .join(' ')}
                    title={kind === 'text' && text.length > 24 ? text : undefined}
                    onClick={() => focus(i, j)}
                    onDblClick={() => may(i, j) && open(i, j)}
                  >
                    {isEdited ? (
                      <CellEditor
                        label={`${name} of row ${i + 1}`}
                        value={value}
                        onDone={(text) => done(i, j, () => edit!.set(row, name, text))}
                        onLeave={() => done(i, j)}
                      />
                    ) : (
                      text
                    )}
                  </td>
                );
              })}
              {edit && (
                <td class="act">
                  {edit.canChange(row, '') && (
                    <Button
                      look="quiet"
                      short
                      label={edit.isDeleted(row) ? `Keep row ${i + 1}` : `Delete row ${i + 1}`}
                      onClick={() => edit.toggleDelete(row)}
                    >
                      {edit.isDeleted(row) ? <IconUndo2 /> : <IconTrash2 />}
                    </Button>
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CellEditor({
  label,
  value,
  onDone,
  onLeave,
}: {
  label: string;
  value: SqlValue;
  onDone: (text: string | null) => void;
  onLeave: () => void;
}) {
  const before = textOf(value);
  const ref = useRef<HTMLTextAreaElement>(null);
  const isOver = useRef(false);
  useEffect(() => ref.current?.select(), []);
  const end = (run: () => void) => {
    if (isOver.current) return;
    isOver.current = true;
    run();
  };
  return (
    <textarea
      ref={ref}
      aria-label={label}
      rows={before.includes('\n') || before.length > 60 ? 4 : 1}
      spellcheck={false}
      defaultValue={before}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === 'Escape') end(onLeave);
        else if (event.key === 'Enter' && !event.shiftKey) end(() => onDone(event.currentTarget.value));
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
      onBlur={(event) => {
        const text = event.currentTarget.value;
        end(() => (text === before ? onLeave() : onDone(text)));
      }}
    />
  );
}
