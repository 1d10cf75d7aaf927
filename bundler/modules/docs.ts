// Renders the documentation as pages of the control UI, so that its links work without the internet.
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Marked, type Tokens } from 'marked';
import { escapeHtml } from '../escape-html.ts';

/** Pages outside `docs/`. */
export const ROOT_PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md'];
const root = fileURLToPath(new URL('../..', import.meta.url));

export interface DocsPage {
  /** Such as `/docs/storage`. */
  path: string;
  html: string;
}

/** Renders all pages. @param tags HTML for the head: the theme script and the style sheet */
export function docsPages(tags: string): DocsPage[] {
  const sources = globSync([...ROOT_PAGES, 'docs/**/*.md'], { cwd: root });
  const known = new Set(sources);
  return sources.sort().map((source) => {
    const { title, body } = render(source, known);
    const path = pathOf(source);
    return { path, html: pageOf(path, title, body, tags) };
  });
}

/** Returns the path of a page: `/docs/storage` for `docs/storage.md`, `/docs/readme` for `README.md`. */
function pathOf(source: string): string {
  return `/docs/${source.replace(/^docs\//, '').replace(/\.md$/, '')}`.toLowerCase();
}

function render(source: string, known: ReadonlySet<string>): { title: string; body: string } {
  let title = 'Cellar';
  const markdown = new Marked({
    renderer: {
      heading({ tokens, text, depth }: Tokens.Heading) {
        if (depth === 1) title = text;
        return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const text = this.parser.parseInline(tokens);
        const to = target(href, source, known);
        return to === null ? text : `<a href="${escapeHtml(to)}">${text}</a>`;
      },
      // A wide table scrolls in its own box. It can take the focus, so that the keyboard scrolls it too.
      table({ header, rows }: Tokens.Table) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`;
        const body = rows.map((row) => cells(row, 'td')).join('\n');
        return `<div class="wide-table" tabindex="0" role="region" aria-label="Table"><table><thead>${cells(header, 'th')}</thead><tbody>${body}</tbody></table></div>\n`;
      },
      code({ text }: Tokens.Code) {
        return `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`;
      },
    },
  });
  const body = markdown.parse(readFileSync(join(root, source), 'utf8'), { async: false });
  return { title, body };
}

/** Returns where a link leads: another page, an anchor or another site; null for files that are not pages. */
function target(href: string, source: string, known: ReadonlySet<string>): string | null {
  if (/^(https?:|#)/.test(href)) return href;
  const [path = '', anchor] = href.split('#');
  const file = join(dirname(source), path);
  if (!known.has(file)) return null;
  return pathOf(file) + (anchor === undefined ? '' : `#${anchor}`);
}

/** Returns the id of a heading, as Git hosts make it. */
function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function pageOf(path: string, title: string, body: string, tags: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Cellar</title>
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
${tags}
</head>
<body class="docs">
<nav aria-label="Documentation">
<a href="/">Cellar</a>
${CONTENTS.map(([name, text]) => {
  const current = path === `/docs/${name}` ? ' aria-current="page"' : '';
  return `<a href="/docs/${name}"${current}>${text}</a>`;
}).join('\n')}
</nav>
<main>
${body}</main>
</body>
</html>
`;
}

/** The pages that most people need, in the order of the navigation. */
const CONTENTS = [
  ['readme', 'Start'],
  ['projects', 'Projects'],
  ['previews', 'Previews'],
  ['storage', 'Storage'],
  ['telemetry', 'Telemetry'],
  ['alerts', 'Alerts'],
  ['cli', 'Command line'],
  ['api', 'API'],
  ['agents', 'Agents'],
  ['limits', 'Limits'],
  ['operations', 'Operations'],
  ['settings', 'Settings'],
  ['security', 'Security'],
] as const;
