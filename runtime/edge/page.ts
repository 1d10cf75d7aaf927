// The HTML page of a refusal: what happened, and what the visitor or the app's owner can do.
import { STATUS_CODES } from 'node:http';
import { escapeHtml } from '../../bundler/escape-html.ts';
import { PAGE_STYLE, type PageColour } from '../../handlers/contract/pages.ts';
import type { Refusal, RefusalReason } from './refusals.ts';

interface Advice {
  /** The state in a word or two, beside its icon. */
  state: string;
  shape: keyof typeof SHAPES;
  colour: PageColour;
  title: string;
  /** What the visitor can do, in whole sentences. */
  visitor: string;
  /** What the app's owner can do, in whole sentences. */
  owner: string;
  /** Whether the page has a link that tries again. */
  again: boolean;
}

/** Icons of the states, as the control UI draws them. */
const SHAPES = {
  filled: '<circle cx="6" cy="6" r="5" fill="currentColor"/>',
  half: '<circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M6 1.75a4.25 4.25 0 0 1 0 8.5z" fill="currentColor"/>',
  hollow: '<circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/>',
  dashed:
    '<circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.2 2.25"/>',
};

const SOON = 'Try again in a few seconds.';
const NOT_READY = {
  state: 'Starting',
  shape: 'half',
  colour: 'sleep',
  title: 'The app is not ready yet',
  visitor: SOON,
  owner: 'Open the app in Cellar: its last error and its log say what the start waits for.',
  again: true,
} as const;
const BUSY = {
  state: 'Busy',
  shape: 'half',
  colour: 'warn',
  title: 'The machine is busy',
  again: true,
} as const;

const ADVICE: Record<RefusalReason, Advice> = {
  unknown_host: {
    state: 'Unknown address',
    shape: 'dashed',
    colour: 'muted',
    title: 'No app answers here',
    visitor: 'Check the address: it may have a typing mistake, or the app may have moved or been deleted.',
    owner:
      'Compare this address with the name of your app. Add a domain of your own in Cellar, under Domains of the app.',
    again: false,
  },
  never_deployed: {
    state: 'Created',
    shape: 'dashed',
    colour: 'muted',
    title: 'Nothing here yet',
    visitor: 'Try again later: the app exists, but nothing has been deployed to it yet.',
    owner: 'Push to the branch main. If you have pushed, the log of the deploy in Cellar says why it failed.',
    again: true,
  },
  stopped: {
    state: 'Stopped',
    shape: 'hollow',
    colour: 'muted',
    title: 'The app is stopped',
    visitor: 'Ask the owner of the app to start it.',
    owner:
      'Start the app on its page in Cellar. If you did not stop it, its last error there says why it was stopped.',
    again: false,
  },
  maintenance: {
    state: 'Maintenance',
    shape: 'half',
    colour: 'warn',
    title: 'The app is being worked on',
    visitor: 'Try again in a few minutes.',
    owner:
      'Turn maintenance off in the settings of the app in Cellar. A page of your own can replace this one.',
    again: true,
  },
  bucket_away: {
    state: 'Waiting',
    shape: 'half',
    colour: 'sleep',
    title: "The app's data is out of reach",
    visitor: SOON,
    owner:
      'The bucket with the data of the app does not answer this host. The app starts again by itself once it does.',
    again: true,
  },
  cut_off: {
    state: 'Waiting',
    shape: 'half',
    colour: 'sleep',
    title: 'The app may run on another host',
    visitor: SOON,
    owner:
      'This host does not reach the control plane of this Cellar. The app starts again by itself once it does.',
    again: true,
  },
  crashed: {
    state: 'Crashed',
    shape: 'filled',
    colour: 'danger',
    title: 'The app has crashed',
    visitor: 'Try again in a minute: Cellar starts the app again by itself.',
    owner:
      'Read the last error of the app in Cellar. If the last deploy brought it, roll back to the one before.',
    again: true,
  },
  wake_failed: {
    state: 'Crashed',
    shape: 'filled',
    colour: 'danger',
    title: 'The app did not start',
    visitor: 'Try again in a minute.',
    owner: 'Read the last error of the app in Cellar: it says why the app does not start.',
    again: true,
  },
  shed: {
    ...BUSY,
    visitor: SOON,
    owner: 'The operator of this machine can give it more memory, or stop apps that are not needed.',
  },
  rate_limited: {
    state: 'Limited',
    shape: 'half',
    colour: 'warn',
    title: 'Too many requests',
    visitor: 'Wait a moment, and then make fewer requests at a time.',
    owner:
      'If this stops people who do nothing wrong, raise the limits in the settings of the app in Cellar.',
    again: true,
  },
  held_too_long: NOT_READY,
  too_many_held: NOT_READY,
  too_many_connections: {
    ...BUSY,
    visitor: SOON,
    owner:
      'Close WebSockets and requests that are not needed. If some clients have too many, the log of this machine names them.',
  },
  closing: {
    ...BUSY,
    state: 'Starting',
    colour: 'sleep',
    title: 'Cellar starts again',
    visitor: SOON,
    owner: 'The operator is stopping or restarting Cellar. Apps start again automatically.',
  },
  no_answer: {
    state: 'No answer',
    shape: 'filled',
    colour: 'danger',
    title: 'The app did not answer',
    visitor: SOON,
    owner: 'Read the last error and the log of the app in Cellar: it may have crashed on this request.',
    again: true,
  },
  exceeded_cpu: {
    state: 'Exceeded CPU',
    shape: 'filled',
    colour: 'danger',
    title: 'The app computed for too long',
    visitor: SOON,
    owner:
      'Look for an endless loop, or raise limits.cpu_ms in the Wrangler configuration of the app. Its last error names the limit.',
    again: true,
  },
};

/** Returns the page for a refusal, without scripts, in the style of the control UI. */
export function refusalPage({ status, code, reason, detail }: Refusal, requestId: string): string {
  const advice = reason && ADVICE[reason];
  const title = advice?.title ?? STATUS_CODES[status] ?? 'Error';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>
${PAGE_STYLE}
.state { display: flex; align-items: center; gap: 8px; margin: 0 0 8px; color: var(--muted) }
.advice { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 240px), 1fr)); gap: 16px 32px; margin: 24px 0 0; padding: 16px 0 0; border-top: 1px solid var(--line) }
.again { display: inline-block; margin: 12px 0 0; padding: 5px 12px; border: 1px solid var(--accent); border-radius: 6px; text-decoration: none }
footer { margin: 24px 0 0; padding: 12px 0 0; border-top: 1px solid var(--line); font-size: 12px; line-height: 16px; color: var(--muted) }
</style>
</head>
<body>
<main>
${advice ? stateLine(advice) : ''}<h1>${title}</h1>
${detail === `${title}.` ? '' : `<p>${escapeHtml(detail)}</p>\n`}${advice ? adviceFor(advice) : ''}</main>
<footer><p>${status} <code>${escapeHtml(code)}</code></p>
<p>Request <code>${escapeHtml(requestId)}</code>. Name it when you report this.</p></footer>
</body>
</html>
`;
}

function stateLine({ state, shape, colour }: Advice): string {
  const drawn = `<svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" style="color: var(--${colour})">${SHAPES[shape]}</svg>`;
  return `<p class="state">${drawn}${state}</p>\n`;
}

/** Returns the advice as HTML. The link `href=""` requests the same URL by GET, without form data of the first request. */
function adviceFor({ visitor, owner, again }: Advice): string {
  return `<div class="advice">
<section><h2>If you are visiting</h2>
<p>${visitor}</p>
${again ? '<a class="again" href="">Try again</a>\n' : ''}</section>
<section><h2>If this is your app</h2>
<p>${owner}</p>
</section></div>
`;
}
