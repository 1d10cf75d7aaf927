// Splits a SQL file into statements, with the rules of SQLite's `sqlite3_complete`. It runs in workerd only: in the control
// plane, and for D1 in apps' processes (`d1-worker.js`, `migration-worker.js`).

/**
 * A comment, a quoted name or text, a word, white space, or any other character. An unclosed comment or quote reaches to the
 * end of the file.
 */
const TOKEN =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?|[\w$\u0080-\uffff]+|\s+|[\s\S]/g;
const BLANK = /^(?:--|\/\*|\s)/;

/** Returns a SQL file's statements, without comments before or after them: workerd refuses text without a statement. */
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
 * Returns the next state of the state machine of `sqlite3_complete`. `start`: the token ended the statement. `body`: inside
 * a trigger, which ends only with `;`, `END` and `;`.
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
