// Commands for an app's storage.
import { type Command, command, readText, textOf } from '../command.ts';
import { ago, bytes, many, plain, table } from '../show.ts';

const database = {
  name: 'database',
  summary: 'the name, binding or id of the database, as `cellar storage` lists them',
};
const prefix = { name: 'prefix', summary: 'only keys that begin with this text', optional: true } as const;
const PAGE = 200;

export const storageCommands: readonly Command[] = [
  command({
    words: 'storage list',
    summary: "Lists an app's databases, object classes, namespaces, queues, buckets and vector indexes",
    ofApp: true,
    examples: ['storage', 'storage list --app shop'],
    answers: 'storage.overview',
    run: (session) => session.call('storage.overview', { id: session.app() }),
    show: ({ databases, classes, namespaces, queues, buckets, vector_indexes }) => {
      const row = (
        kind: string,
        name: string | null,
        binding: string | null,
        contents: string,
        size: number,
        id = '-',
      ) => [kind, name ?? '-', binding ?? '-', contents, bytes(size), id];
      return table(
        ['KIND', 'NAME', 'BINDING', 'HOLDS', 'SIZE', 'ID'],
        [
          ...databases.map((each) => row('database', each.name, each.binding, '', each.bytes, each.id)),
          ...classes.map((each) =>
            row('class', each.class_name, null, many(each.objects, 'object'), each.bytes),
          ),
          ...namespaces.map((each) =>
            row('namespace', null, each.binding, many(each.keys, 'key'), each.bytes, each.id),
          ),
          ...queues.map((each) => row('queue', each.queue, null, many(each.messages, 'message'), each.bytes)),
          ...buckets.map((each) =>
            row('bucket', each.bucket, each.binding, many(each.objects, 'object'), each.bytes),
          ),
          ...vector_indexes.map((each) =>
            row('vector index', each.index, each.binding, many(each.vectors, 'vector'), each.bytes),
          ),
        ],
        'The app has no storage.',
      );
    },
  }),
  command({
    words: 'storage query',
    summary: 'Runs one statement that reads a database',
    ofApp: true,
    arguments: [database, { name: 'sql', summary: 'the SQL statement' }],
    examples: ["storage query DB 'SELECT * FROM orders LIMIT 5'"],
    answers: 'storage.d1.get',
    run: (session, input) =>
      session.call('storage.d1.get', {
        id: session.app(),
        database_id: String(input.database),
        sql: String(input.sql),
        limit: PAGE,
      }),
    show: ({ columns, rows, next_cursor }) => {
      const shown = rows.map((row) =>
        row.map((cell) => plain(typeof cell === 'string' ? cell : JSON.stringify(cell))),
      );
      return `${table(columns, shown, 'No rows.')}${next_cursor === null ? '' : '\n(more rows; use LIMIT and OFFSET)'}`;
    },
  }),
  command({
    words: 'storage write',
    summary: 'Runs one statement that changes a database',
    ofApp: true,
    arguments: [database, { name: 'sql', summary: 'the SQL statement' }],
    examples: ["storage write DB 'DELETE FROM sessions' --yes"],
    answers: 'storage.d1.write',
    destroys: ({ sql, database: name }) => `Run \`${sql}\` on the database ${name}?`,
    run: (session, input) =>
      session.call('storage.d1.write', {
        id: session.app(),
        database_id: String(input.database),
        sql: String(input.sql),
      }),
    show: (written) =>
      `${many(
        [written].flat().reduce((sum, { changes }) => sum + changes, 0),
        'row',
      )} changed`,
  }),
  command({
    words: 'storage export',
    summary: 'Prints a database as SQL',
    ofApp: true,
    arguments: [database],
    examples: ['storage export DB > shop.sql'],
    answers: 'storage.d1.export',
    run: (session, input) =>
      session.call('storage.d1.export', { id: session.app(), database_id: String(input.database) }),
    show: ({ sql }) => sql.trimEnd(),
  }),
  command({
    words: 'storage import',
    summary: 'Runs a file of SQL on a database, in one transaction',
    ofApp: true,
    arguments: [
      database,
      { name: 'file', summary: 'the file with SQL; left out, standard input', optional: true },
    ],
    examples: ['storage import DB shop.sql --yes'],
    answers: 'storage.d1.import',
    destroys: ({ file, database: name }) => `Run ${file ?? 'standard input'} on the database ${name}?`,
    run: async (session, input) => {
      const file = textOf(input, 'file');
      const sql = file === undefined ? await session.place.input() : readText(file);
      return session.call('storage.d1.import', {
        id: session.app(),
        database_id: String(input.database),
        sql,
      });
    },
    show: ({ statements, changes }) =>
      `${many(statements, 'statement')} ran, ${many(changes, 'row')} changed`,
  }),
  command({
    words: 'storage keys',
    summary: 'Lists the first keys of a KV namespace',
    ofApp: true,
    arguments: [
      { name: 'namespace', summary: 'the binding or id of the namespace, as `cellar storage` lists them' },
      prefix,
    ],
    examples: ['storage keys SESSIONS user:'],
    answers: 'storage.kv.list',
    run: (session, input) =>
      session.call('storage.kv.list', {
        id: session.app(),
        namespace_id: String(input.namespace),
        ...(input.prefix !== undefined && { prefix: String(input.prefix) }),
        limit: PAGE,
      }),
    show: ({ items }) =>
      table(
        ['KEY', 'SIZE', 'EXPIRES'],
        items.map((each) => [plain(each.key), bytes(each.bytes), ago(each.expires_at)]),
        'There are no keys or objects with this prefix.',
      ),
  }),
  command({
    words: 'storage objects',
    summary: 'Lists the first objects of a bucket',
    ofApp: true,
    arguments: [{ name: 'bucket', summary: 'the name or binding of the bucket' }, prefix],
    examples: ['storage objects uploads images/'],
    answers: 'storage.r2.list',
    run: (session, input) =>
      session.call('storage.r2.list', {
        id: session.app(),
        bucket: String(input.bucket),
        ...(input.prefix !== undefined && { prefix: String(input.prefix) }),
        limit: PAGE,
      }),
    show: ({ items }) =>
      table(
        ['KEY', 'SIZE', 'UPLOADED'],
        items.map((each) => [plain(each.key), bytes(each.size), ago(each.uploaded_at)]),
        'There are no keys or objects with this prefix.',
      ),
  }),
];
