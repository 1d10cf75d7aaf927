// A process of the app's user that answers queries about the app's storage. The files may be crafted to attack their reader.
// So it writes nothing, and opens only files that a query names. The host limits its time, memory and output.
//
// A query is a line of JSON on standard input. The answer on standard output is a line of JSON, `{"bytes", "refused"}`, and
// then `bytes` bytes of JSON. The host sends the next query after the answer.
import { readSync, writeSync } from 'node:fs';
import { limitAnswer, Refusal } from './answer.js';
import { closeAll, readDatabase } from './databases.js';
import { exportDatabase } from './export.js';
import { listKeys, readKey } from './namespaces.js';
import { listObjects, readObject } from './objects.js';
import { overview } from './overview.js';
import { listInstances, listWorkflows, readInstance } from './workflows.js';

const LINE_END = 10;

const answers = {
  overview,
  export: exportDatabase,
  database: readDatabase,
  objects: listObjects,
  object: readObject,
  keys: listKeys,
  key: readKey,
  workflows: listWorkflows,
  instances: listInstances,
  instance: readInstance,
};

function refusalOf(error) {
  if (error instanceof Refusal) return error;
  if (error.code !== 'ERR_SQLITE_ERROR') throw error;
  return new Refusal('storage_unreadable', `the database cannot be read: ${error.message}`);
}

const piece = Buffer.alloc(64 * 1024);

/** Returns the next query; null at the end of the input. */
function nextQuestion() {
  const pieces = [];
  for (;;) {
    const size = readSync(0, piece);
    if (size === 0) return null;
    pieces.push(Buffer.from(piece.subarray(0, size)));
    if (piece[size - 1] === LINE_END) return JSON.parse(Buffer.concat(pieces));
  }
}

function print(text, refused) {
  const bytes = Buffer.from(`${JSON.stringify({ bytes: Buffer.byteLength(text), refused })}\n${text}`);
  for (let done = 0; done < bytes.length; ) done += writeSync(1, bytes, done);
}

function answer({ kind, limitBytes, ...question }) {
  limitAnswer(limitBytes);
  try {
    print(answers[kind](question), false);
  } catch (error) {
    const { code, message } = refusalOf(error);
    print(JSON.stringify({ code, message }), true);
  } finally {
    closeAll();
  }
}

// The reads block, because Node's streams are slower for a query and its answer.
for (let question = nextQuestion(); question !== null; question = nextQuestion()) answer(question);
