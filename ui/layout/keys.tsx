// Keyboard shortcuts of every screen, and their help.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Dialog } from '../parts/controls/dialog.tsx';
import { follow, href, route } from '../router.ts';
import { isAdmin } from '../session.ts';
import { finding } from './finder.tsx';
import { everywhere, groupsOf, routeOf, type Section } from './sections.ts';

/** Timeout for the letter after `g`, in ms. */
const SECOND_KEY_MS = 1_500;

const helping = signal(false);
/** Time of the last `g`. */
let gAt = Number.NEGATIVE_INFINITY;

/** Listens to keys while mounted, and shows the help. */
export function Keys() {
  useEffect(() => {
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return helping.value ? <Help /> : null;
}

function onKey(event: KeyboardEvent) {
  // Ignores keys that another handler or an input method has handled.
  if (event.defaultPrevented || event.isComposing) return;
  const { key } = event;
  if ((event.metaKey || event.ctrlKey) && !event.shiftKey && !event.altKey && key.toLowerCase() === 'k') {
    event.preventDefault();
    finding.value = finding.value === null ? 'everything' : null;
    return;
  }
  if (
    event.metaKey ||
    event.ctrlKey ||
    event.altKey ||
    isTyping(event) ||
    document.querySelector('dialog[open]')
  )
    return;
  const isSecond = performance.now() - gAt < SECOND_KEY_MS;
  gAt = Number.NEGATIVE_INFINITY;
  if (isSecond && goTo(key)) event.preventDefault();
  else if (key === 'g') gAt = performance.now();
  else if (key === 'j' || key === 'k') moveRow(key === 'j' ? 1 : -1);
  else if (key === '?') helping.value = true;
  else if (key === '/') {
    const search = document.querySelector<HTMLInputElement>('main [data-search]');
    if (search) search.focus();
    else finding.value = 'everything';
    event.preventDefault();
  }
}

/** Whether a person types into a field. For a shadow root, such as the editor's, only the composed path has the field. */
function isTyping(event: KeyboardEvent): boolean {
  const [at] = event.composedPath();
  return at instanceof HTMLElement && (at.isContentEditable || at.matches('input, textarea, select'));
}

/** Returns the sections that shortcuts reach from this screen, if they have a letter. */
function sections(): Section[] {
  const here = route.peek();
  const inApp = here !== null && 'app' in here ? groupsOf('app').flatMap(({ sections }) => sections) : [];
  return [...inApp, ...everywhere.filter(({ name }) => name !== 'machine' || isAdmin.peek())];
}

function goTo(key: string): boolean {
  const section = sections().find((each) => each.key === key);
  if (!section) return false;
  const here = route.peek();
  const app = here !== null && 'app' in here && !everywhere.includes(section) ? here.app : null;
  follow(href(routeOf(section, app)));
  return true;
}

/** Focuses the next row (1) or the previous one (-1): its link, or another control. */
function moveRow(by: 1 | -1) {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : at + by];
  const target = row?.matches('a, button, [tabindex]')
    ? row
    : row?.querySelector<HTMLElement>('a.main-cell, a, button, [tabindex]');
  target?.focus();
  row?.scrollIntoView({ block: 'nearest' });
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

function Help() {
  const close = () => {
    helping.value = false;
  };
  const common: [string[], string][] = [
    [[isMac ? '⌘' : 'Ctrl', 'K'], 'Find everything'],
    [['/'], 'Search on this screen'],
    [['j'], 'Next row'],
    [['k'], 'Row before'],
    [['Enter'], 'Open it'],
    [['Esc'], 'Close what is open'],
    [['?'], 'This list'],
  ];
  return (
    <Dialog title="Keys" onClose={close}>
      <div class="keys">
        <dl>
          {common.map(([keys, text]) => (
            <Line key={text} keys={keys} text={text} />
          ))}
        </dl>
        <dl>
          {sections().map(
            ({ key, text }) => key !== undefined && <Line key={text} keys={['g', key]} text={text} />,
          )}
        </dl>
      </div>
    </Dialog>
  );
}

function Line({ keys, text }: { keys: string[]; text: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </div>
  );
}
