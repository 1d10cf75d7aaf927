// Headers and style of the small HTML pages of the control plane and of the host, such as error pages.

/** Headers of a small page with inline style and no other resources. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'x-content-type-options': 'nosniff',
};

/** The control UI's colours by role, in light and dark: the same as in `ui/style/tokens.css`. */
export const PAGE_COLOURS = {
  light: {
    paper: '#faf9f7',
    raised: '#ffffff',
    line: '#e4e0d9',
    ink: '#1f1d1a',
    muted: '#67625a',
    accent: '#1f6f54',
    danger: '#b3382c',
    warn: '#8f6200',
    sleep: '#54659b',
  },
  dark: {
    paper: '#141312',
    raised: '#1c1b19',
    line: '#302e2a',
    ink: '#ece9e4',
    muted: '#a39d93',
    accent: '#63c7a0',
    danger: '#f0887c',
    warn: '#e0b04a',
    sleep: '#9aa9dd',
  },
} as const;

export type PageColour = keyof typeof PAGE_COLOURS.light;

/** Style of a small page: the control UI's colours, fonts and sizes. */
export const PAGE_STYLE = `:root { ${roles(PAGE_COLOURS.light)} }
@media (prefers-color-scheme: dark) { :root { ${roles(PAGE_COLOURS.dark)} } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 14vh 16px 32px; max-width: 608px; font: 14px/20px system-ui, sans-serif; color: var(--ink); background: var(--paper); overflow-wrap: anywhere }
h1 { margin: 0; font-size: 20px; line-height: 28px; font-weight: 600 } h2 { margin: 0; font-size: 14px; line-height: 20px; font-weight: 600 }
p { margin: 4px 0 0 } code { font: 12px/16px ui-monospace, monospace } a { color: var(--accent) }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }`;

function roles(colours: Record<PageColour, string>): string {
  return Object.entries(colours)
    .map(([role, colour]) => `--${role}: ${colour}`)
    .join('; ');
}
