// Tables of a database or a Durable Object: pages of one table, with a filter and edits.
import { useState } from 'preact/hooks';
import { type ChangeSet, changesOf, MOST_CHANGES, readable } from '../../models/source/change-set.ts';
import {
  type Reader,
  type Table,
  type TableModel,
  tableModel,
  type Writer,
} from '../../models/storage/storage.ts';
import { type SqlValue, typed } from '../../models/storage/values.ts';
import { queryOf, setQuery } from '../../router.ts';
import { Button } from '../controls/button.tsx';
import { Console } from '../controls/console.tsx';
import { FormDialog } from '../controls/dialog.tsx';
import { TextField } from '../controls/field.tsx';
import { plural } from '../format.ts';
import { IconPlay, IconPlus, IconTable } from '../icons.tsx';
import { useModel } from '../model.ts';
import { Empty, Loaded } from '../status/states.tsx';
import { toast } from '../status/toast.tsx';
import { Grid } from './grid.tsx';

/** @param props.place identifies the database, for its changes and its console @param props.write null when read-only */
export function Tables({
  place,
  tables,
  read,
  write,
  refresh,
}: {
  place: string;
  tables: readonly Table[];
  read: Reader;
  write: Writer | null;
  /** Reads the list of tables again. */
  refresh: () => Promise<void>;
}) {
  const asked = queryOf('table');
  const shown = asked === '' ? tables[0] : tables.find(({ name }) => name === asked);
  const isConsole = asked === ' console' || tables.length === 0;
  const [sort, filter] = [queryOf('sort'), queryOf('filter')];
  return (
    <div class="tables">
      <nav aria-label="Tables" class="tree">
        <ul>
          {tables.map((table) => (
            <li key={table.name}>
              <button
                type="button"
                aria-current={!isConsole && shown?.name === table.name ? 'true' : undefined}
                onClick={() => setQuery({ table: table.name, sort: '', filter: '' }, { push: true })}
              >
                <IconTable /> <span class="cut">{table.name}</span>
                {write !== null && <Unwritten of={changesOf(place, table)} />}
                {table.type !== 'table' && <span class="muted small">{table.type}</span>}
              </button>
            </li>
          ))}
          <li>
            <button
              type="button"
              aria-current={isConsole ? 'true' : undefined}
              onClick={() => setQuery({ table: ' console', sort: '', filter: '' }, { push: true })}
            >
              <IconPlay /> SQL console
            </button>
          </li>
        </ul>
      </nav>
      <div class="grow stack">
        {isConsole ? (
          <Console {...{ place, read, write, refresh }} isEmpty={tables.length === 0} />
        ) : shown ? (
          <TableView
            key={`${shown.name} ${sort} ${filter}`}
            {...{ place, read, write, sort, filter }}
            table={shown}
          />
        ) : (
          <div class="panel">
            <Empty title={`There is no table ${asked}`} />
          </div>
        )}
      </div>
    </div>
  );
}

/** Shows the number of changed rows that are not written yet. */
function Unwritten({ of: { count } }: { of: ChangeSet }) {
  return count.value > 0 && <span class="muted small">{count} to write</span>;
}

function TableView({
  place,
  read,
  write,
  table,
  sort,
  filter,
}: {
  place: string;
  read: Reader;
  write: Writer | null;
  table: Table;
  sort: string;
  filter: string;
}) {
  const model = useModel(() => tableModel(read, table, { sort, filter }, write, changesOf(place, table)));
  const [condition, setCondition] = useState(filter);
  const [adding, setAdding] = useState(false);
  const hasKey = table.columns.some(({ primary_key }) => primary_key > 0);
  return (
    <div class="panel">
      <header>
        <search class="conditions">
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault();
              setQuery({ filter: condition });
            }}
          >
            <div class="condition">
              <TextField
                label="Only rows where"
                unlabelled
                placeholder="Only rows where … such as age > 30 AND name LIKE 'A%'"
                value={condition}
                onValue={setCondition}
                spellcheck={false}
                autocomplete="off"
              />
            </div>
            <Button type="submit" disabled={condition === filter}>
              Filter
            </Button>
          </form>
        </search>
        {model.canWrite && (
          <Button onClick={() => setAdding(true)}>
            <IconPlus /> Add a row
          </Button>
        )}
      </header>
      {model.canWrite && !hasKey && (
        <p class="hint-line">
          The table has no primary key: rows can be added here, and changed in the console.
        </p>
      )}
      <Loaded of={model.rows}>
        {({ rows, next }) =>
          rows.length === 0 ? (
            <Empty title={filter === '' ? 'No rows yet' : 'No row matches'} />
          ) : (
            <>
              <Grid
                label={table.name}
                columns={table.columns.map(({ name, type, primary_key }) => ({
                  name,
                  type,
                  isKey: primary_key > 0,
                }))}
                rows={rows}
                keyOf={(row, i) => (model.changes.canChange(row) ? model.changes.keyOf(row) : String(i))}
                sort={sort}
                onSort={(next) => setQuery({ sort: next })}
                {...(model.canWrite && { edit: editOf(model, table) })}
              />
              <p class="grid-foot muted small">
                <span>
                  {plural(rows.length, 'row')}
                  {next !== null && ' so far'}
                  {model.canWrite && hasKey && '. Double-click a cell, or press Enter in it, to change it.'}
                </span>
                {next !== null && (
                  <Button short onClick={() => model.more()}>
                    Show more
                  </Button>
                )}
              </p>
            </>
          )
        }
      </Loaded>
      <ChangeBar {...{ model }} />
      {adding && <NewRow {...{ model, table }} onClose={() => setAdding(false)} />}
    </div>
  );
}

function editOf({ changes }: TableModel, table: Table) {
  const columnOf = (name: string) => table.columns.find((column) => column.name === name);
  return {
    valueOf: changes.valueOf,
    isChanged: changes.isChanged,
    isDeleted: changes.isDeleted,
    toggleDelete: changes.toggleDelete,
    canChange: (row: readonly SqlValue[], column: string) => {
      const value = column === '' ? null : changes.valueOf(row, column);
      const isBytes = value !== null && typeof value === 'object' && '$bytes' in value;
      return changes.canChange(row) && !isBytes && !columnOf(column)?.generated;
    },
    set: (row: readonly SqlValue[], column: string, text: string | null) =>
      changes.update(row, column, text === null ? null : typed(text, columnOf(column)!.type)),
  };
}

/** Shows changes that are not written yet. */
function ChangeBar({ model }: { model: TableModel }) {
  const { changes } = model;
  const [shown, setShown] = useState(false);
  const count = changes.count.value;
  if (count === 0) return null;
  const write = async () => {
    const rows = await model.write();
    toast(`${plural(rows, 'row')} written`);
  };
  return (
    <section class="change-bar" aria-label="Changes that are not written yet">
      <div class="row apart">
        <p>
          <b>{plural(count, 'row')}</b> to write
          {changes.deletes.value.size > 0 && `, ${changes.deletes.value.size} of them to delete`}
          {changes.inserts.value.length > 0 && `, ${changes.inserts.value.length} new`}. All changes are
          written together, or none.
        </p>
        <span class="row">
          <Button look="quiet" aria-expanded={shown} onClick={() => setShown(!shown)}>
            {shown ? 'Hide the SQL' : 'Show the SQL'}
          </Button>
          <Button onClick={changes.clear}>Drop the changes</Button>
          <Button look="primary" disabled={count > MOST_CHANGES} onClick={write}>
            Write {plural(count, 'change')}
          </Button>
        </span>
      </div>
      {count > MOST_CHANGES && <p class="danger">At most {MOST_CHANGES} rows are written at once.</p>}
      {shown && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keyboard too
        <pre class="mono statements" tabIndex={0}>
          {changes
            .statements()
            .map((statement) => `${readable(statement)};`)
            .join('\n')}
        </pre>
      )}
    </section>
  );
}

function NewRow({ model, table, onClose }: { model: TableModel; table: Table; onClose: () => void }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const columns = table.columns.filter(({ generated }) => !generated);
  const add = (event: Event) => {
    event.preventDefault();
    const given = columns.filter(({ name }) => values[name] !== undefined && values[name] !== '');
    model.changes.insert(new Map(given.map(({ name, type }) => [name, typed(values[name]!, type)])));
    onClose();
  };
  return (
    <FormDialog
      title={`Add a row to ${table.name}`}
      onClose={onClose}
      onSubmit={add}
      action="Add it to the changes"
    >
      {columns.map(({ name, type, not_null, default: otherwise, primary_key }) => (
        <TextField
          key={name}
          label={`${name} · ${type.toLowerCase() || 'any'}`}
          value={values[name] ?? ''}
          onValue={(value) => setValues({ ...values, [name]: value })}
          placeholder={
            otherwise ?? (primary_key > 0 && /INT/i.test(type) ? 'the next number' : not_null ? '' : 'NULL')
          }
          required={not_null && otherwise === null && primary_key === 0}
          spellcheck={false}
          autocomplete="off"
        />
      ))}
    </FormDialog>
  );
}
