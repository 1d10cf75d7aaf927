// Splits a SQL file into statements, as SQLite's own `sqlite3_complete` tells where one ends. Both planes use it, and so
// does the Worker's entry, for an import: it is a module of workerd too.

/** A comment, a quoted name or text, a word, white space, or any other character. Unclosed ones reach to the end. */
const TOKEN =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?|[\w$\u0080-\uffff]+|\s+|[\s\S]/g;
const BLANK = /^(?:--|\/\*|\s)/;

/** The statements of a file, without the comments around them. workerd refuses text that holds no statement. */
export function splitStatements(text) {
  const statements = [];
  let place = 'start';
  let line = 1;
  let from = 0;
  let end = 0;
  let begun = 1;
  const close = () => {
    if (end > from) statements.push({ sql: text.slice(from, end), line: begun });
    place = 'start';
    end = from;
  };
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (!BLANK.test(token)) {
      if (end <= from) {
        from = index;
        begun = line;
      }
      place = next(place, token);
      if (place === 'start') {
        close();
        from = index + token.length;
        end = from;
      } else end = index + token.length;
    }
    line += token.split('\n').length - 1;
  }
  close();
  return statements;
}

/**
 * SQLite's own automaton. `start` after a token means that a statement has ended there; `body` is inside a trigger, where
 * `;` ends nothing until `END` follows one.
 */
function next(place, token) {
  const word = token.toUpperCase();
  if (place === 'body') return word === ';' ? 'body-semicolon' : 'body';
  if (place === 'body-semicolon') return word === ';' ? place : word === 'END' ? 'body-end' : 'body';
  if (place === 'body-end') return word === ';' ? 'start' : 'body';
  if (word === ';') return 'start';
  if (place === 'start' && word === 'EXPLAIN') return 'explain';
  if ((place === 'start' || place === 'explain') && word === 'CREATE') return 'create';
  if (place === 'explain' && (word === 'QUERY' || word === 'PLAN')) return 'explain';
  if (place === 'create' && (word === 'TEMP' || word === 'TEMPORARY')) return 'create';
  if (place === 'create' && word === 'TRIGGER') return 'body';
  return 'normal';
}
