// The page that a visitor sees when the gateway answers by itself: what happened, and what can be done about it.
import { STATUS_CODES } from 'node:http';
import type { Refusal, RefusalReason } from './refusals.ts';

/** What can be done, in whole sentences. */
interface Advice {
  title: string;
  visitor: string;
  owner: string;
}

const SOON = 'Reload the page in a few seconds.';
const ADVICE: Record<RefusalReason, Advice> = {
  unknown_host: {
    title: 'No app here',
    visitor: 'Check the address: it may have a typing mistake, or the app may have moved or been deleted.',
    owner:
      'Compare this address with the name and the domains of your app. A new domain has to be added to the app.',
  },
  never_deployed: {
    title: 'Nothing here yet',
    visitor: 'Come back later: the app has been made, but has no content yet.',
    owner: 'Push to the branch main. If you have pushed, read the log of the deploy: it says why it failed.',
  },
  stopped: {
    title: 'The app is stopped',
    visitor: 'Ask the owner of the app to start it.',
    owner: 'Start the app through the API. If you did not stop it, its last error says why it was stopped.',
  },
  crashed: {
    title: 'The app has crashed',
    visitor: 'Try again in a minute: the app is started again by itself.',
    owner: 'Read the last error of the app. If the last deploy brought it, roll back to the one before.',
  },
  wake_failed: {
    title: 'The app did not start',
    visitor: 'Try again in a minute.',
    owner: 'Read the last error of the app: it says why it does not start.',
  },
  shed: {
    title: 'The machine is busy',
    visitor: SOON,
    owner: 'Whoever runs this machine can give it more memory, or stop apps that nobody needs.',
  },
  rate_limited: {
    title: 'Too many requests',
    visitor: 'Wait a moment, and then make fewer requests at a time.',
    owner: 'If this stops people who do nothing wrong, raise the limits of the app.',
  },
  held_too_long: {
    title: 'The app is not ready',
    visitor: SOON,
    owner: 'Read the last error and the log of the app: they say what its start waits for.',
  },
  too_many_held: {
    title: 'The app is not ready',
    visitor: SOON,
    owner: 'Read the last error and the log of the app: they say what its start waits for.',
  },
  too_many_connections: {
    title: 'The machine is busy',
    visitor: SOON,
    owner: 'Whoever runs this machine finds in its log who has most connections.',
  },
  closing: {
    title: 'Cellar starts again',
    visitor: SOON,
    owner: 'Whoever runs this machine is stopping Cellar or starting it again. Apps come back by themselves.',
  },
  no_answer: {
    title: 'The app did not answer',
    visitor: SOON,
    owner: 'Read the last error and the log of the app: it may have crashed on this request.',
  },
};

/** The page for a refusal. Its colours have a contrast of more than 4.5:1 in light and in dark. */
export function refusalPage({ status, code, reason, detail }: Refusal, requestId: string): string {
  const { title, visitor, owner } = reason ? ADVICE[reason] : other(status);
  const advice =
    visitor === ''
      ? ''
      : `<h2>If you are visiting</h2>\n<p>${visitor}</p>\n<h2>If this is your app</h2>\n<p>${owner}</p>\n`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto 2rem; padding: 0 1rem; color: #22201d; background: #faf9f7 }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1rem; margin: 1.5rem 0 0 } p { margin: .25rem 0 0; overflow-wrap: anywhere }
footer { margin-top: 2rem; font-size: .875rem; color: #5f5a53 }
@media (prefers-color-scheme: dark) { body { color: #e6e3df; background: #141312 } footer { color: #a8a29a } }
</style>
<h1>${title}</h1>
<p>${escapeHtml(detail)}</p>
${advice}<footer><p>${status} <code>${escapeHtml(code)}</code></p>
<p>Request <code>${escapeHtml(requestId)}</code>: name it when you report this.</p></footer>
</html>
`;
}

/** What is refused for other reasons is mostly a program's mistake, which its detail tells. */
function other(status: number): Advice {
  return { title: STATUS_CODES[status] ?? 'Error', visitor: '', owner: '' };
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
