// Pull requests of the connected repository, with their previews. Pull requests from outside wait for an approval.
import type { Connection, connectionModel } from '../../models/source/connection.ts';
import { Button } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { toast } from '../../parts/status/toast.tsx';

type Pull = Connection['pulls'][number];

interface PullRequestsProps {
  of: Connection;
  model: Pick<ReturnType<typeof connectionModel>, 'approve'>;
}

export function PullRequests({ of, model }: PullRequestsProps) {
  if (of.pulls.length === 0) return null;
  return (
    <section class="stack tight" aria-labelledby="pull-requests">
      <h3 id="pull-requests">Pull requests</h3>
      <ul class="stack tight">
        {of.pulls.map((pull) => (
          <li key={pull.number} class="row apart">
            <span>
              #{pull.number} {pull.title}
            </span>
            <span class="row">
              <code>{pull.sha.slice(0, 8)}</code>
              <span>{pull.state}</span>
              <Preview pull={pull} approve={() => ask(pull, model)} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Preview({ pull, approve }: { pull: Pull; approve: () => void }) {
  if (pull.state === 'waiting')
    return (
      <Button needs="push" short onClick={approve}>
        Approve #{pull.number}
      </Button>
    );
  if (pull.url !== null) return <a href={pull.url}>Open the preview</a>;
  return pull.error === null ? null : <span class="muted">{pull.error}</span>;
}

function ask(pull: Pull, model: PullRequestsProps['model']): void {
  askFirst({
    title: `Approve #${pull.number}?`,
    about: `The commit ${pull.sha.slice(0, 8)} comes from outside. Its code is built and run with the variables and secrets of the app, so review it first. Later commits need another approval.`,
    action: 'Approve this commit',
    run: async () => {
      await model.approve(pull);
      toast('The preview is being built');
    },
  });
}
