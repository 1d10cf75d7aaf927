// Counts all of an app's storage.
import { lstatSync, opendirSync } from 'node:fs';
import { join } from 'node:path';
import { json } from './answer.js';
import { isTable, open, prepare } from './databases.js';
import { openNamespace, PRESENT } from './namespaces.js';
import { objectsIn, sizeOf } from './objects.js';
import { decoded } from './values.js';

function countKeys({ path, blobs }) {
  const database = openNamespace(path);
  if (database === null) return { keys: 0, bytes: 0 };
  const [keys] = prepare(database, `SELECT count(*) FROM entries WHERE ${PRESENT}`).get(Date.now());
  let size = sizeOf(path);
  const stat = lstatSync(blobs, { throwIfNoEntry: false });
  if (stat?.isDirectory()) {
    const entries = opendirSync(blobs);
    for (let file = entries.readSync(); file !== null; file = entries.readSync())
      size += lstatSync(join(blobs, file.name), { throwIfNoEntry: false })?.size ?? 0;
    entries.closeSync();
  }
  return { keys: Number(keys), bytes: size };
}

/** Returns the number and bytes of waiting messages by queue. A queue has several objects. Each stores the queue's name. */
function countMessages(directory) {
  const queues = new Map();
  for (const id of objectsIn(directory)) {
    const database = open(join(directory, `${id}.sqlite`), true);
    if (database === null || !isTable(database, 'messages') || !isTable(database, '_cf_KV')) continue;
    const named = database.prepare(`SELECT value FROM _cf_KV WHERE key = 'queue'`).get();
    const { n, size } = database.prepare('SELECT count(*) AS n, total(size) AS size FROM messages').get();
    database.close();
    const queue = named === undefined ? null : decoded(named.value);
    if (typeof queue !== 'string') continue;
    const before = queues.get(queue) ?? { messages: 0, bytes: 0 };
    queues.set(queue, { messages: before.messages + n, bytes: before.bytes + size });
  }
  return queues;
}

export function overview({ databases, classes, namespaces, queues, queueDirectory }) {
  const messages = countMessages(queueDirectory);
  return json({
    databases: databases.map(({ path, ...named }) => ({ ...named, bytes: sizeOf(path) })),
    classes: classes.map(({ directory, counted, ...named }) => ({
      ...named,
      ...(counted ?? countObjects(directory)),
    })),
    namespaces: namespaces.map(({ path, blobs, cache: _, counted, ...named }) => {
      const found = countKeys({ path, blobs });
      return { ...named, ...found, bytes: counted ?? found.bytes };
    }),
    queues: queues.map((queue) => ({ queue, messages: 0, bytes: 0, ...messages.get(queue) })),
  });
}
