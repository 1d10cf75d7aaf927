// Commits the changes made in the browser, after showing them.
import { useMemo, useState } from 'preact/hooks';
import type { Failure } from '../../api.ts';
import { changeOf, type Draft } from '../../models/drafts.ts';
import { diffLines } from '../../models/source/line-diff.ts';
import type { sourceModel } from '../../models/source/source.ts';
import { FileDiff } from '../../parts/code/diff.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { TextArea } from '../../parts/controls/field.tsx';
import { plural } from '../../parts/format.ts';
import { Notice } from '../../parts/status/states.tsx';
import { open } from '../../router.ts';

type Model = ReturnType<typeof sourceModel>;

export function Commit({ app, model, onClose }: { app: string; model: Model; onClose: () => void }) {
  const changes = model.drafts.list.value;
  const [message, setMessage] = useState('');
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const first = changes[0]!;
  const usual =
    changes.length === 1
      ? `${{ added: 'Add', modified: 'Change', deleted: 'Delete' }[changeOf(first)]} ${first.path}`
      : `Change ${plural(changes.length, 'file')}`;
  const commit = async (event: Event) => {
    event.preventDefault();
    // The keys of the message field commit too.
    if (busy || changes.length === 0) return;
    setBusy(true);
    try {
      const deploy = await model.commit(message.trim() || usual);
      onClose();
      open({ name: 'deploy', app, deploy });
    } catch (error) {
      setFailure(error as Failure);
      setBusy(false);
    }
  };
  const readAgain = () => model.readAgain().then(() => setFailure(null), setFailure);
  return (
    <Dialog title={`Commit ${plural(changes.length, 'change')} to main`} onClose={onClose} large>
      <form onSubmit={commit} class="stack">
        <TextArea
          label="Message"
          value={message}
          onValue={setMessage}
          placeholder={usual}
          rows={3}
          autofocus
          hint="The app is built and deployed from this commit at once."
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) void commit(event);
          }}
        />
        <section class="stack tight" aria-label="What is committed">
          {changes.map((draft) => (
            <DraftDiff key={draft.path} draft={draft} />
          ))}
        </section>
        {failure?.code === 'commit_conflict' ? (
          <Notice look="danger">
            <p>Somebody has changed main since you opened it. Your changes are still here.</p>
            <Button short onClick={readAgain}>
              Go on from the newest commit
            </Button>
          </Notice>
        ) : (
          failure && <Notice look="danger">{failure.message}</Notice>
        )}
        <footer>
          <Button onClick={onClose}>Not yet</Button>
          <Button look="primary" type="submit" disabled={busy || changes.length === 0}>
            Commit and deploy
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function DraftDiff({ draft }: { draft: Draft }) {
  const { additions, deletions, ...lines } = useMemo(() => diffLines(draft.was, draft.text), [draft]);
  const patch = { ...lines, isBinary: false };
  return <FileDiff path={draft.path} status={changeOf(draft)} {...{ additions, deletions, patch }} />;
}
