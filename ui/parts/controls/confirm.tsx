// Asks before an action that others notice, such as a stop or a rollback.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';

interface Question {
  title: string;
  /** What will happen. */
  about: ComponentChildren;
  /** Text of the button that runs the action: "Stop the app". */
  action: string;
  danger?: boolean;
  /** Runs the action. A failure is shown as a toast, and the question stays open. */
  run: () => Promise<unknown>;
}

const question = signal<Question | null>(null);

/** Asks the question, and runs the action if the person agrees. */
export function askFirst(asked: Question): void {
  question.value = asked;
}

/** Renders the question. Mounted once, by the frame. */
export function Confirm() {
  const asked = question.value;
  if (asked === null) return null;
  const close = () => {
    question.value = null;
  };
  const run = async () => {
    await asked.run();
    close();
  };
  return (
    <Dialog title={asked.title} onClose={close}>
      <div class="stack">
        <p>{asked.about}</p>
        <footer>
          <Button onClick={close}>Cancel</Button>
          <Button look={asked.danger ? 'danger primary' : 'primary'} autofocus onClick={run}>
            {asked.action}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}
