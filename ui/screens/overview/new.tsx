// Creates an app by name. Its overview shows the next steps.
import { useState } from 'preact/hooks';
import { api, type Failure } from '../../api.ts';
import { Head } from '../../layout/head.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconLock } from '../../parts/icons.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { open } from '../../router.ts';
import { ownsApps, session } from '../../session.ts';

export default function New() {
  const [slug, setSlug] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const [storage, setStorage] = useState(session.value?.storage ?? 'local');
  const typed = slug.trim();
  const { busy, onSubmit } = useSubmit(async () => {
    try {
      await api('apps.create', { slug: typed, storage });
    } catch (error) {
      const { fields, message } = error as Failure;
      setWrong(fields.length > 0 ? `The name ${fields[0]!.message}.` : message);
      return;
    }
    open({ name: 'overview', app: typed }, { replace: true });
  });
  if (!ownsApps.value)
    return (
      <Empty title="Guests own no apps" heading="h1" icon={IconLock}>
        <p>
          You were invited to the app of somebody else. An administrator of the machine can let you have apps
          of your own.
        </p>
      </Empty>
    );
  const address = session.value?.urls.app.replace('{slug}', typed === '' ? '<name>' : typed);
  return (
    <div class="column">
      <Head
        title="New app"
        about="An app begins with a name. It is part of the app's address, and can be changed later."
      />
      <form class="stack" onSubmit={onSubmit}>
        <TextField
          label="Name"
          name="slug"
          value={slug}
          onValue={(value) => {
            setSlug(value.toLowerCase().replaceAll(/[\s_]+/g, '-'));
            setWrong(null);
          }}
          wrong={wrong}
          hint={<>It will answer at {address}</>}
          placeholder="guestbook"
          autocomplete="off"
          spellcheck={false}
          maxLength={40}
          autofocus
          required
        />
        {session.value?.bucket && (
          <Select
            label="Where it keeps its data"
            value={storage}
            onValue={setStorage}
            options={[
              ['local', 'On this machine'],
              ['bucket', 'In the bucket'],
            ]}
          />
        )}
        <div class="row">
          <Button type="submit" look="primary" disabled={busy || typed === ''}>
            Make the app
          </Button>
        </div>
      </form>
    </div>
  );
}
