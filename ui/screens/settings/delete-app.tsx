// Deletes an app after the person has typed its name.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';

/** @param props.name the name that the person must type @param props.about what the deletion does */
export function DeleteApp({
  name,
  about,
  onDelete,
  onClose,
}: {
  name: string;
  about: ComponentChildren;
  onDelete: () => Promise<void>;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState('');
  const { busy, onSubmit } = useSubmit(onDelete);
  return (
    <Dialog title={`Delete ${name}`} onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        <p>{about}</p>
        <TextField
          label={`Type ${name} to delete it`}
          value={typed}
          onValue={setTyped}
          spellcheck={false}
          autocomplete="off"
        />
        <footer>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger primary" type="submit" disabled={busy || typed !== name}>
            Delete the app
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
