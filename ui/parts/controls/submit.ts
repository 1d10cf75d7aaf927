// Submits forms.
import { useState } from 'preact/hooks';
import type { Failure } from '../../api.ts';
import { sentText } from '../../unsaved.ts';
import { showFaults } from '../status/faults.ts';
import { failed } from '../status/toast.tsx';

/**
 * Returns a form's submit handler. Ignores a submit while another one runs. Shows a failure at its fields if the form has
 * all of them, else as a toast.
 */
export function useSubmit(run: () => Promise<unknown>) {
  const [busy, setBusy] = useState(false);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const sender = event.currentTarget as Element;
    const saved = sentText(sender);
    try {
      await run();
      saved();
    } catch (error) {
      if (!showFaults(sender.closest('form'), error as Failure)) failed(error);
    } finally {
      setBusy(false);
    }
  };
  return { busy, onSubmit };
}
