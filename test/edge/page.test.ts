// The page of a refusal: what it says, and that it can be read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusalPage } from '../../runtime/edge/page.ts';
import type { RefusalReason } from '../../runtime/edge/refusals.ts';

const REASONS: RefusalReason[] = [
  'unknown_host',
  'never_deployed',
  'stopped',
  'crashed',
  'wake_failed',
  'shed',
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

test('each page says what happened, what visitor and owner can do, and names the request', () => {
  for (const reason of REASONS) {
    const text = page(reason);
    assert.match(text, /<h1>[A-Z][^<]+<\/h1>\n<p>What &#60;b&#62; happened\.<\/p>/, reason);
    assert.match(text, /If you are visiting<\/h2>\n<p>[A-Z][^<]+\.<\/p>/, reason);
    assert.match(text, /If this is your app<\/h2>\n<p>[A-Z][^<]+\.<\/p>/, reason);
    assert.match(text, /<code>abc123<\/code>/, reason);
  }
});

test('all text has a contrast of 4.5:1 in light and in dark', () => {
  const [light, dark] = page('stopped').split('@media (prefers-color-scheme: dark)');
  for (const style of [light!, dark!]) {
    const background = /background: (#\w{6})/.exec(style)![1]!;
    const colours = [...style.matchAll(/[ {]color: (#\w{6})/g)].map((match) => match[1]!);
    assert.equal(colours.length, 2);
    for (const colour of colours) {
      assert.ok(contrast(colour, background) >= 4.5, `${colour} on ${background}`);
    }
  }
});
