// Error pages: their content and their contrast.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PAGE_COLOURS } from '../../handlers/contract/pages.ts';
import { refusalPage } from '../../runtime/edge/page.ts';
import type { RefusalReason } from '../../runtime/edge/refusals.ts';

const REASONS: RefusalReason[] = [
  'unknown_host',
  'never_deployed',
  'stopped',
  'maintenance',
  'crashed',
  'wake_failed',
  'shed',
  'bucket_away',
  'cut_off',
  'rate_limited',
  'held_too_long',
  'too_many_held',
  'too_many_connections',
  'no_answer',
  'closing',
];

/** Relative luminance of `#rrggbb` (WCAG 2.2). */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (light! + 0.05) / (dark! + 0.05);
}

const page = (reason: RefusalReason) =>
  refusalPage({ status: 503, code: 'app_unavailable', reason, detail: 'What <b> happened.' }, 'abc123');

test('each page names the state, what happened, what visitor and owner can do, and the request', () => {
  for (const reason of REASONS) {
    const text = page(reason);
    assert.match(text, /<p class="state"><svg [^>]*aria-hidden="true".+<\/svg>[A-Z][a-z ]+<\/p>/, reason);
    assert.match(text, /<h1>[A-Z][^<]+<\/h1>\n<p>What &#60;b&#62; happened\.<\/p>/, reason);
    assert.match(text, /If you are visiting<\/h2>\n<p>[A-Z][^<]+\.<\/p>/, reason);
    assert.match(text, /If this is your app<\/h2>\n<p>[A-Z][^<]+\.<\/p>/, reason);
    assert.match(text, /<code>abc123<\/code>/, reason);
    assert.ok(
      !text.includes('<script') && !text.includes('http'),
      `${reason}: no script, and nothing from elsewhere`,
    );
  }
});

test('a page offers a retry where that may help', () => {
  assert.match(page('held_too_long'), /<a class="again" href="">Try again<\/a>/);
  assert.doesNotMatch(page('stopped'), /Try again/);
});

test('the colours are those of the control UI', () => {
  const [light, dark] = readFileSync(new URL('../../ui/style/tokens.css', import.meta.url), 'utf8').split(
    ':root[data-theme="dark"]',
  );
  for (const [style, colours] of [
    [light!, PAGE_COLOURS.light],
    [dark!, PAGE_COLOURS.dark],
  ] as const)
    for (const [role, colour] of Object.entries(colours))
      assert.ok(style.includes(`--${role}: ${colour};`), role);
});

test('the text of a page has a contrast of 4.5:1 to paper and raised, and its shapes 3:1, in light and in dark', () => {
  for (const [theme, colours] of Object.entries(PAGE_COLOURS)) {
    const { paper, raised, line: _, ...others } = colours;
    for (const [role, colour] of Object.entries(others)) {
      for (const behind of [paper, raised]) {
        assert.ok(contrast(colour, behind) >= 4.5, `${theme}: ${role} ${colour} on ${behind}`);
      }
    }
  }
  for (const colours of [PAGE_COLOURS.light, PAGE_COLOURS.dark]) {
    for (const colour of Object.values(colours)) assert.ok(page('stopped').includes(colour), colour);
  }
});
