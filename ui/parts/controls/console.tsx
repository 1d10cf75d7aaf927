// An SQL console: runs single statements, and shows the last result and the history.
import { consoleModel, type Ran, type Reader, type Writer } from '../../models/storage/storage.ts';
import { ago, duration, plural } from '../format.ts';
import { IconPlay } from '../icons.tsx';
import { useMade } from '../model.ts';
import { Failed, Notice } from '../status/states.tsx';
import { Grid } from '../tables/grid.tsx';
import { Button } from './button.tsx';
import { TextArea } from './field.tsx';
import { useSubmit } from './submit.ts';

/** @param props.place identifies the console, for its history and its text @param props.write null when read-only */
export function Console({
  place,
  read,
  write,
  refresh,
  isEmpty,
}: {
  place: string;
  read: Reader;
  write: Writer | null;
  /** Reads the list of tables again. */
  refresh: () => Promise<void>;
  isEmpty: boolean;
}) {
  const model = useMade(() => consoleModel(place, read, write));
  const sql = model.text.value;
  const setSql = (text: string) => {
    model.text.value = text;
  };
  const { busy, onSubmit } = useSubmit(async () => {
    await model.run(sql);
    if (model.last.value && 'changes' in model.last.value.result) await refresh();
  });
  const last = model.last.value;
  return (
    <>
      {isEmpty && (
        <Notice>There are no tables yet. A migration of the app or a statement here makes them.</Notice>
      )}
      <form class="panel" onSubmit={onSubmit}>
        <div class="body stack tight">
          <TextArea
            label="One statement of SQL"
            unlabelled
            placeholder={write === null ? 'SELECT …' : 'SELECT … or a statement that writes'}
            rows={5}
            value={sql}
            onValue={setSql}
            isKept
            spellcheck={false}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || !(event.metaKey || event.ctrlKey)) return;
              event.preventDefault();
              void onSubmit(event);
            }}
          />
          <div class="row apart">
            <span class="muted small">
              {write === null
                ? 'Only the code of the app can change objects: statements here can only read.'
                : 'A process of the app runs statements that write.'}
            </span>
            <Button type="submit" look="primary" disabled={busy || sql.trim() === ''}>
              <IconPlay /> Run <kbd>Ctrl ↵</kbd>
            </Button>
          </div>
        </div>
      </form>
      {last && <Result {...{ last }} />}
      {model.past.value.length > 0 && (
        <section class="panel" aria-labelledby="history">
          <header>
            <h2 id="history">Run before</h2>
          </header>
          <ul class="history">
            {model.past.value.map((each) => (
              <li key={each}>
                <button type="button" class="mono" onClick={() => setSql(each)}>
                  {each}
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Result({ last: { result, ms, at } }: { last: Ran }) {
  return (
    <div class="panel" role="status">
      {'failure' in result ? (
        <Failed failure={result.failure} />
      ) : 'changes' in result ? (
        <p class="body">
          {plural(result.changes, 'row')} changed in {duration(ms)}
        </p>
      ) : (
        <>
          {result.columns.length > 0 && result.rows.length > 0 && (
            <Grid
              label="Rows"
              columns={result.columns.map((name, i) => ({
                name: result.columns.indexOf(name) === i ? name : `${name} (${i + 1})`,
              }))}
              rows={result.rows}
            />
          )}
          <p class="grid-foot muted small">
            {plural(result.rows.length, 'row')} in {duration(ms)}, {ago(at)}
          </p>
        </>
      )}
    </div>
  );
}
