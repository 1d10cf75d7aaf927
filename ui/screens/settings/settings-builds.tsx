// Build settings: which pushes deploy, the app's folder in the repository, and commands.
import { useState } from 'preact/hooks';
import { type Builds, buildsModel } from '../../models/settings.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { toast } from '../../parts/status/toast.tsx';

/** The fields of the form. An empty field: the value is detected, or nothing runs. */
const FIELDS: {
  name: Exclude<keyof Builds, 'deploy_on'>;
  label: string;
  placeholder: string;
  hint: string;
}[] = [
  {
    name: 'root_directory',
    label: 'Root directory',
    placeholder: 'detected, or the root of the repository',
    hint: 'The folder of the app, such as apps/web. Its packages are installed in the folder of its lock file, which may be the workspace’s root.',
  },
  {
    name: 'install_command',
    label: 'Install command',
    placeholder: 'what the lock file says',
    hint: 'Runs in the root directory, on every deploy.',
  },
  {
    name: 'build_command',
    label: 'Build command',
    placeholder: 'build.command of Wrangler, or the script build',
    hint: 'Runs in the root directory.',
  },
  {
    name: 'release_command',
    label: 'Release command',
    placeholder: 'nothing',
    hint: 'Runs in the root directory, after the build and just before the new version goes live. If it fails, the earlier version stays live.',
  },
  {
    name: 'output_directory',
    label: 'Output directory',
    placeholder: 'what the build writes',
    hint: 'The folder of the static files, relative to the root directory. A Wrangler configuration, if there is one, names it instead.',
  },
];

/** Options for which pushes deploy: value and text. */
const PUSHES = [
  ['main', 'each push to main'],
  ['tags', 'the pushed tag with the highest version'],
  ['manual', 'only what I deploy'],
] as const;

export function BuildSettings({ app }: { app: string }) {
  const model = useModel(() => buildsModel(app));
  return (
    <section class="panel" aria-labelledby="builds">
      <header>
        <h2 id="builds">How it is built</h2>
      </header>
      <Loaded of={model.builds}>
        {(builds) => (
          <Form
            key={JSON.stringify(builds)}
            builds={builds}
            save={async (change) => {
              await model.set(change);
              toast('The next deploy is built this way');
            }}
          />
        )}
      </Loaded>
    </section>
  );
}

function Form({ builds, save }: { builds: Builds; save: (change: Builds) => Promise<void> }) {
  const [typed, setTyped] = useState(builds);
  const { busy, onSubmit } = useSubmit(() => save(typed));
  const isChanged =
    typed.deploy_on !== builds.deploy_on || FIELDS.some(({ name }) => typed[name] !== builds[name]);
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      {FIELDS.map(({ name, label, placeholder, hint }) => (
        <TextField
          key={name}
          label={label}
          placeholder={placeholder}
          hint={hint}
          value={typed[name] ?? ''}
          onValue={(value) => setTyped({ ...typed, [name]: value.trim() === '' ? null : value })}
          maxLength={4096}
          spellcheck={false}
          autocomplete="off"
        />
      ))}
      <Select
        label="Which pushes deploy"
        value={typed.deploy_on}
        onValue={(deploy_on) => setTyped({ ...typed, deploy_on })}
        options={PUSHES}
      />
      <div>
        <Button needs="admin" type="submit" disabled={busy || !isChanged}>
          Set how it is built
        </Button>
      </div>
    </form>
  );
}
