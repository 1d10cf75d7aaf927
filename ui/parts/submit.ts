// Forms.
import { useState } from 'preact/hooks';
import { sentText } from '../unsaved.ts';
import { failed } from './toast.tsx';

/** What a form does when it is sent: once at a time. A failure of it is told by a toast. */
export function useSubmit(run: () => Promise<unknown>) {
  const [busy, setBusy] = useState(false);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const saved = sentText(event.currentTarget as Node);
    try {
      await run();
      saved();
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return { busy, onSubmit };
}
