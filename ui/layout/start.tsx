// Ways to deploy the first code of an app.
import { useState } from 'preact/hooks';
import type { Failure } from '../api.ts';
import { commands, startModel } from '../models/start.ts';
import { Code } from '../parts/code/code.tsx';
import { Button, Link } from '../parts/controls/button.tsx';
import { TextField } from '../parts/controls/field.tsx';
import { useSubmit } from '../parts/controls/submit.ts';
import { IconFolder, IconGitBranch, IconKeyRound, IconLayers, IconSquareTerminal } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Loaded, Skeleton } from '../parts/status/states.tsx';
import { Status } from '../parts/status/status.tsx';
import { session } from '../session.ts';
import { FolderDrop } from './folder-drop.tsx';

/** @param props.onDeploy called with the id of the deploy that was started */
export function Start({ slug, onDeploy }: { slug: string; onDeploy: (id: string) => void }) {
  const model = useModel(() => startModel(slug));
  const remote = model.remote.data.value;
  const key = model.key.value;
  const said = remote && commands(remote, slug, session.value?.urls.api ?? '', key);
  const makeKey = key === null && (
    <Button short onClick={model.makeKey}>
      <IconKeyRound /> Make an API key and put it in
    </Button>
  );
  const shownOnce = key !== null && (
    <p class="small muted">The key is shown only now. The page of your account lists your keys.</p>
  );
  return (
    <section class="stack" aria-label="Bring code">
      <p class="waiting" role="status">
        <Status of="starting" word="Waiting for code. This page continues automatically when code arrives." />
      </p>
      <div class="ways">
        <div class="panel way">
          <h2>
            <IconGitBranch /> Push with git
          </h2>
          <p class="muted">Run this in the folder of your project, after a first commit.</p>
          {said ? <Code text={said.git} wrap label="Copy the git commands" /> : <Skeleton height={76} />}
          {key === null && (
            <p class="small muted">
              Git asks for a user name and a password: <code>git</code>, and an API key.
            </p>
          )}
          {makeKey}
          {shownOnce}
        </div>
        <div class="panel way">
          <h2>
            <IconSquareTerminal /> Deploy with Wrangler
          </h2>
          <p class="muted">For a project that you deploy with Wrangler today.</p>
          {said ? (
            <Code text={said.wrangler} wrap label="Copy the Wrangler commands" />
          ) : (
            <Skeleton height={96} />
          )}
          {makeKey}
          {shownOnce}
        </div>
        <div class="panel way">
          <h2>
            <IconLayers /> Start from something
          </h2>
          <p class="muted">Choose a template. You can change its code here, or clone it.</p>
          <Loaded of={model.templates} shape={<Skeleton height={120} />}>
            {(templates) => (
              <ul class="templates">
                {templates.map(({ name, title, description }) => (
                  <li key={name}>
                    <span class="grow">
                      <b>{title}</b>
                      <span class="small muted">{description}</span>
                    </span>
                    <Button needs="push" short onClick={async () => onDeploy(await model.fromTemplate(name))}>
                      Use<span class="unseen"> {title}</span>
                    </Button>
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
          <FromAddress take={async (url) => onDeploy(await model.fromAddress(url))} />
          <p class="small muted">
            The code is imported once. To deploy each push to GitHub, GitLab, Forgejo or Gitea,{' '}
            <Link to={{ name: 'settings', app: slug }}>connect the repository</Link>.
          </p>
        </div>
        <div class="panel way">
          <h2>
            <IconFolder /> Drop a built folder
          </h2>
          <FolderDrop app={slug} onDeploy={onDeploy} />
        </div>
      </div>
    </section>
  );
}

function FromAddress({ take }: { take: (url: string) => Promise<void> }) {
  const [url, setUrl] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const { busy, onSubmit } = useSubmit(async () => {
    setWrong(null);
    await take(url.trim()).catch(({ fields, message }: Failure) =>
      setWrong(fields.length > 0 ? `The address ${fields[0]!.message}.` : message),
    );
  });
  return (
    <form class="row bottoms" onSubmit={onSubmit}>
      <div class="grow">
        <TextField
          label="Or a public Git repository"
          name="url"
          type="url"
          placeholder="https://github.com/…"
          value={url}
          onValue={setUrl}
          wrong={wrong}
          required
        />
      </div>
      <Button needs="push" type="submit" disabled={busy}>
        {busy ? 'Importing' : 'Import'}
      </Button>
    </form>
  );
}
