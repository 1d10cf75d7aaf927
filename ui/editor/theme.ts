// Styles of the editor. They use the custom properties of tokens.css, which reach into its shadow root.
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const highlight = HighlightStyle.define([
  { tag: [tags.comment, tags.meta], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.tagName], color: 'var(--sleep)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.attributeValue], color: 'var(--accent)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.color, tags.unit], color: 'var(--warn)' },
  { tag: [tags.typeName, tags.className, tags.namespace], color: 'var(--sleep)' },
  {
    tag: [
      tags.definition(tags.variableName),
      tags.function(tags.definition(tags.variableName)),
      tags.heading,
    ],
    fontWeight: '600',
  },
  { tag: [tags.punctuation, tags.bracket], color: 'var(--muted)' },
  { tag: tags.invalid, color: 'var(--danger)' },
]);

const look = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--raised)', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { font: 'var(--code)', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '8px 0' },
  '.cm-line': { padding: '0 16px 0 8px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--muted)', border: '0' },
  '.cm-lineNumbers .cm-gutterElement': { minWidth: '40px', padding: '0 8px 0 12px' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--sunken)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--glow)',
  },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--accent-soft)',
    outline: '1px solid var(--accent)',
  },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)', outline: '1px solid var(--warn)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent)' },
  '.cm-panels': { backgroundColor: 'var(--paper)', color: 'var(--ink)', font: 'var(--small)' },
  '.cm-panels-bottom': { borderTop: '1px solid var(--line)' },
  '.cm-panel.cm-search': { padding: '8px 12px' },
  '.cm-textfield': {
    font: 'inherit',
    border: '1px solid var(--line-strong)',
    borderRadius: '4px',
    backgroundColor: 'var(--raised)',
    color: 'inherit',
    padding: '3px 6px',
  },
  '.cm-button': {
    font: 'inherit',
    border: '1px solid var(--line)',
    borderRadius: '4px',
    background: 'var(--raised)',
    color: 'inherit',
    padding: '3px 8px',
  },
});

export const theme = [look, syntaxHighlighting(highlight)];
