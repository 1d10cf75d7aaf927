// Shows a new link for another person, and whether it was mailed. The link cannot be shown again.
import type { MadeLink } from '../models/account/invites.ts';
import { Code } from '../parts/code/code.tsx';
import { Button } from '../parts/controls/button.tsx';
import { Dialog } from '../parts/controls/dialog.tsx';
import { IconCircleAlert } from '../parts/icons.tsx';
import { Notice } from '../parts/status/states.tsx';

/** @param props.about explains the link; not shown when `link.url` is null, because the link was mailed */
export function LinkDialog({
  link: { url, mail },
  about,
  onClose,
}: {
  link: MadeLink;
  about: string;
  onClose: () => void;
}) {
  const isSent = mail !== null && mail.problem === null;
  return (
    <Dialog title={url === null ? 'Invited' : 'The link'} onClose={onClose}>
      <div class="stack">
        {url !== null && <p>{about}</p>}
        {isSent && <p>The link was sent to {mail.to}.</p>}
        {url === null && <p class="muted">The link works once, within 7 days.</p>}
        {mail !== null && mail.problem !== null && (
          <Notice look="danger" icon={IconCircleAlert}>
            The link was made; the e-mail to {mail.to} could not be sent: {mail.problem}. Copy the link, and
            send it yourself.
          </Notice>
        )}
        {url !== null && <Code text={url} wrap label="Copy the link" />}
        <footer>
          <Button look="primary" onClick={onClose}>
            {isSent ? 'Done' : 'I have sent it'}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}
