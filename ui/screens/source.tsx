// The source of an app: its files, an editor, and a commit of what was changed.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type EditorPart from '../editor/editor.tsx';
import { Head } from '../layout/head.tsx';
import { type Change, changeOf, type Draft, hasDrafts } from '../models/drafts.ts';
import { sourceModel } from '../models/source.ts';
import { pathFault, type TreeNode } from '../models/tree.ts';
import { Button, Link, RemoveButton } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { DiffSum, DiffView } from '../parts/diff.tsx';
import { Search, TextField } from '../parts/field.tsx';
import { bytes, plural, shortSha } from '../parts/format.ts';
import {
  IconChevronDown,
  IconChevronRight,
  IconFile,
  IconFileCode,
  IconFilePlus,
  IconGitCommitHorizontal,
  IconUndo2,
} from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Empty, Failed, Loaded, Notice, SkeletonRows } from '../parts/states.tsx';
import { Badge } from '../parts/status.tsx';
import { may } from '../role.ts';
import { href, open, queryOf, setQuery } from '../router.ts';
import { Commit } from './source-commit.tsx';

type Model = ReturnType<typeof sourceModel>;

const LOOKS: Record<Change, 'accent' | 'warn' | 'danger'> = {
  added: 'accent',
  modified: 'warn',
  deleted: 'danger',
};

export default function Source({ app, path }: { app: string; path: string }) {
  const model = useModel(() => sourceModel(app, path));
  const [dialog, setDialog] = useState<'commit' | 'new' | null>(null);
  const { tree, ref, drafts } = model;
  const changes = drafts.list.value;
  const isMain = ref.value === '';
  const save = () => may('push') && drafts.list.peek().length > 0 && setDialog('commit');
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => hasDrafts() && event.preventDefault();
    const key = (event: KeyboardEvent) => {
      if (event.key !== 's' || !(event.metaKey || event.ctrlKey) || event.defaultPrevented) return;
      event.preventDefault();
      save();
    };
    addEventListener('beforeunload', warn);
    addEventListener('keydown', key);
    return () => {
      removeEventListener('beforeunload', warn);
      removeEventListener('keydown', key);
    };
  }, []);
  return (
    <div class="full source-screen">
      <Head
        title="Source"
        status={
          tree.data.value?.sha && (
            <Link to={{ name: 'commit', app, sha: tree.data.value.sha }} class="mono">
              {isMain ? 'main' : shortSha(tree.data.value.sha)}
            </Link>
          )
        }
      >
        {!isMain && (
          <Button onClick={() => setQuery({ ref: null }, { push: true })}>Go to main, to edit</Button>
        )}
        {isMain && tree.data.value && (
          <Button needs="push" onClick={() => setDialog('new')}>
            <IconFilePlus /> New file
          </Button>
        )}
        {isMain && (
          <Button
            needs="push"
            look="primary"
            disabled={changes.length === 0}
            onClick={() => setDialog('commit')}
          >
            <IconGitCommitHorizontal />
            {changes.length === 0 ? 'Commit' : `Commit ${plural(changes.length, 'change')}`}
          </Button>
        )}
      </Head>
      <Loaded of={tree}>
        {({ sha, isCut }) =>
          sha === null && changes.length === 0 ? (
            <div class="panel">
              <Empty title="No source yet" icon={IconFileCode}>
                <p>Push to main, or write the first file here.</p>
                <div class="row">
                  <Button needs="push" look="primary" onClick={() => setDialog('new')}>
                    Write the first file
                  </Button>
                  <Link to={{ name: 'overview', app }}>Other ways to bring code</Link>
                </div>
              </Empty>
            </div>
          ) : (
            <div class={path === '' ? 'source' : 'source at-file'}>
              <Files app={app} path={path} model={model} isCut={isCut} />
              <section class="panel file" aria-label={path === '' ? 'No file' : path}>
                {path === '' ? (
                  <NoFile model={model} app={app} />
                ) : (
                  <File app={app} path={path} model={model} save={save} />
                )}
              </section>
            </div>
          )
        }
      </Loaded>
      {dialog === 'new' && <NewFile app={app} model={model} onClose={() => setDialog(null)} />}
      {dialog === 'commit' && <Commit app={app} model={model} onClose={() => setDialog(null)} />}
    </div>
  );
}

/** The tree at the left. */
function Files({ app, path, model, isCut }: { app: string; path: string; model: Model; isCut: boolean }) {
  const { filter, found, nodes } = model;
  return (
    <nav class="panel files" aria-label="Files">
      <Search label="Find a file" value={queryOf('q')} onValue={(q) => setQuery({ q })} />
      {filter.value !== '' && found.value.length === 0 ? (
        <p class="muted small files-none">No file has “{filter.value}” in its path</p>
      ) : (
        <Nodes app={app} path={path} model={model} nodes={nodes.value} />
      )}
      {isCut && <p class="muted small files-none">Only the first 10,000 files are here.</p>}
    </nav>
  );
}

function Nodes({ app, path, model, nodes }: { app: string; path: string; model: Model; nodes: TreeNode[] }) {
  const { folders, toggle, filter, drafts, ref } = model;
  return (
    <ul>
      {nodes.map((node) => {
        if (node.children === null) {
          const draft = ref.value === '' ? drafts.files.value.get(node.path) : undefined;
          const change = draft && changeOf(draft);
          return (
            <li key={node.path}>
              <a
                class={change === 'deleted' ? 'node gone' : 'node'}
                href={href({ name: 'source', app, path: node.path }, { ref: ref.value, q: filter.value })}
                aria-current={node.path === path ? 'page' : undefined}
              >
                <IconFile />
                <span class="cut">{node.name}</span>
                {change && <span class={`change ${change}`} title={change} role="img" aria-label={change} />}
              </a>
            </li>
          );
        }
        const isOpen = filter.value !== '' || folders.value.has(node.path);
        return (
          <li key={node.path}>
            <button type="button" class="node" aria-expanded={isOpen} onClick={() => toggle(node.path)}>
              {isOpen ? <IconChevronDown /> : <IconChevronRight />}
              <span class="cut">{node.name}</span>
            </button>
            {isOpen && <Nodes app={app} path={path} model={model} nodes={node.children} />}
          </li>
        );
      })}
    </ul>
  );
}

function NoFile({ model, app }: { model: Model; app: string }) {
  const changes = model.drafts.list.value;
  const ahead = model.ahead.data.value;
  return (
    <div class="no-file">
      {changes.length === 0 ? (
        <Empty title="Choose a file">
          <p>
            What you change is kept here until you commit it to main, which deploys the app. <kbd>⌘S</kbd> or{' '}
            <kbd>Ctrl S</kbd> commits.
          </p>
        </Empty>
      ) : (
        <div class="body stack">
          <h2>Not committed yet</h2>
          <Changes app={app} changes={changes} />
        </div>
      )}
      {ahead !== null && ahead.from !== null && ahead.files.length > 0 && (
        <div class="body stack">
          <div>
            <h2>Main differs from what serves</h2>
            <p class="muted">
              <DiffSum files={ahead.files} />: the last deploy of main failed, or an earlier release was taken
              back. <Link to={{ name: 'deploys', app }}>See the deploys</Link>
            </p>
          </div>
          <DiffView diff={ahead} app={app} />
        </div>
      )}
    </div>
  );
}

function Changes({ app, changes }: { app: string; changes: readonly Draft[] }) {
  return (
    <ul class="stack tight">
      {changes.map((draft) => (
        <li key={draft.path} class="row">
          <Badge look={LOOKS[changeOf(draft)]}>{changeOf(draft)}</Badge>
          <Link to={{ name: 'source', app, path: draft.path }} class="mono">
            {draft.path}
          </Link>
        </li>
      ))}
    </ul>
  );
}

/** One file: its head, and what is in it. */
function File({ app, path, model, save }: { app: string; path: string; model: Model; save: () => void }) {
  const { file, draft, drafts, ref } = model;
  /** How often the change was given up: then the editor begins anew. */
  const [discards, setDiscards] = useState(0);
  const own = draft.value;
  // What was read of another commit is not of this one.
  const read = file.data.value?.ref === ref.value ? file.data.value : null;
  const was = own ? own.was : (read?.text ?? null);
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
        {own && <Badge look={LOOKS[changeOf(own)]}>{changeOf(own)}</Badge>}
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
          <p>It has {bytes(read.size)}. Change it with git.</p>
        </Empty>
      ) : (
        <>
          {read?.isCut && (
            <Notice look="warn">
              Only its beginning is here: it has {bytes(read.size)}. Change it with git.
            </Notice>
          )}
          <LazyEditor
            key={`${ref.value} ${discards} ${may('push')}`}
            path={path}
            text={own?.text ?? read?.text ?? ''}
            line={Number(queryOf('line')) || null}
            isReadOnly={!isMain || !may('push') || (read?.isCut ?? false)}
            onText={(text) => drafts.write(path, text, was)}
            onSave={save}
          />
        </>
      )}
    </>
  );
}

type EditorProps = Parameters<typeof EditorPart>[0];
let loaded: ComponentType<EditorProps> | null = null;

/** The editor, which is loaded when a file is opened first. */
function LazyEditor(props: EditorProps) {
  const [Part, setPart] = useState<ComponentType<EditorProps> | null>(() => loaded);
  const [failure, setFailure] = useState(false);
  // What is typed changes the text of the draft, not that of the editor, which has it already.
  const [text] = useState(props.text);
  const load = () =>
    import('../editor/editor.tsx').then(
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
  if (Part) return <Part {...props} text={text} />;
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

function NewFile({ app, model, onClose }: { app: string; model: Model; onClose: () => void }) {
  const [path, setPath] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const make = (event: Event) => {
    event.preventDefault();
    const fault = pathFault(path.trim(), model.files.peek());
    setWrong(fault);
    if (fault !== null) return;
    model.drafts.write(path.trim(), '', null);
    onClose();
    open({ name: 'source', app, path: path.trim() });
  };
  return (
    <Dialog title="New file" onClose={onClose}>
      <form onSubmit={make}>
        <TextField
          label="Path"
          value={path}
          onValue={setPath}
          wrong={wrong}
          placeholder="src/index.js"
          hint="Folders are made with it. Nothing is committed yet."
          autofocus
          spellcheck={false}
          autocomplete="off"
        />
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit">
            Make the file
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
