// Asks for a tag, a branch or a commit, and deploys it.
import { useState } from 'preact/hooks';
import { api } from '../../api.ts';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { open } from '../../router.ts';

export function DeployRef({ app, onClose }: { app: string; onClose: () => void }) {
  const [ref, setRef] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    const { id } = await api('deploys.create', { id: app, ref: ref.trim() });
    open({ name: 'deploy', app, deploy: id });
  });
  return (
    <FormDialog
      title="Deploy a tag or commit"
      action="Deploy it"
      disabled={busy || ref.trim() === ''}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label="Tag, branch or commit"
        name="ref"
        value={ref}
        onValue={setRef}
        placeholder="v1.4"
        hint="The commit is built and goes live. The next push deploys as before."
        required
        maxLength={200}
        spellcheck={false}
        autocomplete="off"
      />
    </FormDialog>
  );
}
