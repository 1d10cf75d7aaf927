// The code editor. It is in a shadow root: there its styles need no `style` element, which the page's policy forbids.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput, indentUnit } from '@codemirror/language';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { useEffect, useRef } from 'preact/hooks';
import { languageOf } from './languages/index.ts';
import { theme } from './theme.ts';

interface EditorProps {
  /** Path of the file, for its language and the editor's accessible name. */
  path: string;
  /** The initial text. A different text needs a different `key`. */
  text: string;
  /** Number of the line to scroll to and select, from 1; null for none. */
  line: number | null;
  isReadOnly: boolean;
  onText: (text: string) => void;
  /** ⌘S, or Ctrl+S. */
  onSave: () => void;
}

/** A text editor or viewer. By keyboard, `Esc` and then `Tab` leave it. */
export default function Editor(props: EditorProps) {
  const { path, text, line, isReadOnly } = props;
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const root = box.current!.shadowRoot ?? box.current!.attachShadow({ mode: 'open' });
    const language = new Compartment();
    const view = new EditorView({
      parent: root as unknown as Element,
      root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          drawSelection(),
          history(),
          indentOnInput(),
          indentUnit.of(indentOf(text)),
          bracketMatching(),
          highlightSelectionMatches(),
          keymap.of([
            {
              key: 'Mod-s',
              preventDefault: true,
              run: () => {
                latest.current.onSave();
                return true;
              },
            },
            ...defaultKeymap,
            ...historyKeymap,
            ...searchKeymap,
            indentWithTab,
          ]),
          EditorState.readOnly.of(isReadOnly),
          EditorView.contentAttributes.of({ 'aria-label': path, spellcheck: 'false', tabindex: '0' }),
          EditorView.updateListener.of(({ docChanged, state }) => {
            if (docChanged) latest.current.onText(state.doc.toString());
          }),
          language.of([]),
          theme,
        ],
      }),
    });
    languageOf(path).then(
      (found) => found && view.dispatch({ effects: language.reconfigure(found) }),
      // If the language cannot be loaded, the text is not highlighted.
      () => {},
    );
    shown.current = view;
    return () => view.destroy();
  }, [path, isReadOnly]);
  useEffect(() => {
    const view = shown.current;
    if (view === null || line === null || line > view.state.doc.lines) return;
    const { from } = view.state.doc.line(line);
    view.dispatch({
      selection: { anchor: from },
      effects: EditorView.scrollIntoView(from, { y: 'center' }),
    });
    view.focus();
  }, [path, isReadOnly, line]);
  return <div ref={box} class="editor" />;
}

/** Returns the indentation of the first indented line: a tab, or two to four spaces; two spaces without such a line. */
function indentOf(text: string): string {
  const found = /^(\t| {2,8})(?=\S)/m.exec(text)?.[1] ?? '  ';
  return found === '\t' ? '\t' : ' '.repeat(Math.min(found.length, 4));
}
