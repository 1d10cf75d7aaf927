// The source of an app: its files, an editor, and commits of changes.
import { useEffect, useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { changeOf, type Draft } from '../../models/drafts.ts';
import { sourceModel } from '../../models/source/source.ts';
import { pathFault, type TreeNode } from '../../models/source/tree.ts';
import { DiffSum, DiffView } from '../../parts/code/diff.tsx';
import { Button, Link } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { Search, TextField } from '../../parts/controls/field.tsx';
import { plural, shortSha } from '../../parts/format.ts';
import {
  IconChevronDown,
  IconChevronRight,
  IconFile,
  IconFileCode,
  IconFilePlus,
  IconGitCommitHorizontal,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { may } from '../../role.ts';
import { href, open, queryOf, setQuery } from '../../router.ts';
import { Commit } from './source-commit.tsx';
import { ChangeBadge, File } from './source-file.tsx';

type Model = ReturnType<typeof sourceModel>;

export default function Source({ app, path }: { app: string; path: string }) {
  const model = useModel(() => sourceModel(app, path));
  const [dialog, setDialog] = useState<'commit' | 'new' | null>(null);
  const { tree, ref, drafts } = model;
  const changes = drafts.list.value;
  const isMain = ref.value === '';
  const save = () => may('push') && ref.peek() === '' && drafts.list.peek().length > 0 && setDialog('commit');
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.key !== 's' || !(event.metaKey || event.ctrlKey) || event.defaultPrevented) return;
      event.preventDefault();
      save();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
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

/** The file tree in the sidebar. */
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
            <h2>Main differs from the live release</h2>
            <p class="muted">
              <DiffSum files={ahead.files} />: the last deploy of main failed, or an earlier release was made
              live again. <Link to={{ name: 'deploys', app }}>See the deploys</Link>
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
          <ChangeBadge draft={draft} />
          <Link to={{ name: 'source', app, path: draft.path }} class="mono">
            {draft.path}
          </Link>
        </li>
      ))}
    </ul>
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
          hint="Missing folders are made with the file. Nothing is committed yet."
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
