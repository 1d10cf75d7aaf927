// One source file: its header and an editor.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type EditorPart from '../../editor/editor.tsx';
import { type Change, changeOf, type Draft } from '../../models/drafts.ts';
import type { sourceModel } from '../../models/source/source.ts';
import { Button, Link, RemoveButton } from '../../parts/controls/button.tsx';
import { bytes } from '../../parts/format.ts';
import { IconUndo2 } from '../../parts/icons.tsx';
import { Empty, Failed, Notice, SkeletonRows } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { may } from '../../role.ts';
import { open, queryOf } from '../../router.ts';

type Model = ReturnType<typeof sourceModel>;

const LOOKS: Record<Change, 'accent' | 'warn' | 'danger'> = {
  added: 'accent',
  modified: 'warn',
  deleted: 'danger',
};

/** @param props.save opens the commit dialog, unless the person may not commit or nothing has changed */
export function File({
  app,
  path,
  model,
  save,
}: {
  app: string;
  path: string;
  model: Model;
  save: () => void;
}) {
  const { file, draft, drafts, ref } = model;
  /** Number of discarded changes. It is in the editor's key, so that a discard recreates the editor. */
  const [discards, setDiscards] = useState(0);
  const own = draft.value;
  // Ignores a file read at another commit.
  const read = file.data.value?.ref === ref.value ? file.data.value : null;
  const was = own ? own.was : (read?.base ?? null);
  const isMain = ref.value === '';
  const remove = () => {
    drafts.remove(path, was);
    if (was === null) open({ name: 'source', app, path: '' });
  };
  const discard = () => {
    drafts.discard(path);
    setDiscards((before) => before + 1);
  };
  const isThere = own !== null || read !== null;
  return (
    <>
      <header>
        <span class="only-small">
          <Link to={{ name: 'source', app, path: '' }}>Files</Link>
        </span>
        <h2 class="mono cut">{path}</h2>
        {own && <ChangeBadge draft={own} />}
        {read && !own && <span class="muted small">{bytes(read.size)}</span>}
        <span class="grow" />
        {own && own.was !== null && (
          <Button short look="quiet" onClick={discard}>
            <IconUndo2 /> Discard the change
          </Button>
        )}
        {isMain && isThere && own?.text !== null && (
          <RemoveButton needs="push" label="Delete the file" onClick={remove} />
        )}
      </header>
      {own === null && file.failure.value !== null && read === null ? (
        <Failed failure={file.failure.value} retry={file.refresh} />
      ) : own?.text === null ? (
        <Empty title="This file is deleted with the next commit">
          <Button onClick={() => drafts.discard(path)}>Keep it</Button>
        </Empty>
      ) : !isThere ? (
        <SkeletonRows rows={10} height={16} />
      ) : own === null && read?.image ? (
        <p class="image">
          <img src={read.image} alt={path} />
        </p>
      ) : own === null && read !== null && read.text === null ? (
        <Empty title="A binary file">
          <p>The file has {bytes(read.size)}. Change the file with git.</p>
        </Empty>
      ) : (
        <>
          {read?.isCut && (
            <Notice look="warn">
              Only the beginning of the file is shown: the file has {bytes(read.size)}. Change the file with
              git.
            </Notice>
          )}
          <LazyEditor
            key={`${ref.value} ${discards} ${may('push')}`}
            path={path}
            text={own?.text ?? read?.text ?? ''}
            line={Number(queryOf('line')) || null}
            isReadOnly={!isMain || !may('push') || (read?.isCut ?? false)}
            was={was}
            onText={(text, from) => drafts.write(path, text, from)}
            onSave={save}
          />
        </>
      )}
    </>
  );
}

type EditorProps = Parameters<typeof EditorPart>[0];
type LazyProps = Omit<EditorProps, 'onText'> & {
  /** The text on main. */
  was: string | null;
  onText: (text: string, was: string | null) => void;
};
let loaded: ComponentType<EditorProps> | null = null;

/** Loads the editor when the first file is opened. */
function LazyEditor({ onText, ...props }: LazyProps) {
  const [Part, setPart] = useState<ComponentType<EditorProps> | null>(() => loaded);
  const [failure, setFailure] = useState(false);
  // Typing changes `props.text`. The editor has that text already, so it keeps the initial prop. It keeps the initial
  // `was` too: a later read of the file may return another text, from which the person did not begin.
  const [{ text, was }] = useState(props);
  const load = () =>
    import('../../editor/editor.tsx').then(
      ({ default: found }) => {
        loaded = found;
        setFailure(false);
        setPart(() => found);
      },
      () => setFailure(true),
    );
  useEffect(() => {
    if (loaded === null) void load();
  }, []);
  if (Part) return <Part {...props} text={text} onText={(now) => onText(now, was)} />;
  return (
    <>
      {failure && (
        <Notice look="warn">
          The editor could not be loaded.{' '}
          <Button short onClick={load}>
            Try again
          </Button>
        </Notice>
      )}
      <pre class="plain">{text}</pre>
    </>
  );
}

export function ChangeBadge({ draft }: { draft: Draft }) {
  const change = changeOf(draft);
  return <Badge look={LOOKS[change]}>{change}</Badge>;
}
