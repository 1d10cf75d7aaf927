// Run by a process of the app's user: answers questions about what an app keeps. What lies there may be made to harm whoever
// reads it: nothing is written, nothing but the named files is opened, and the host ends this process when it takes too long,
// too much memory, or prints too much.
//
// A question is a line of JSON on standard input. Its answer on standard output is a line of JSON, `{"bytes", "refused"}`, and
// so many bytes of JSON. The next question comes after that.
import { limitAnswer, Refusal } from './answer.js';
import { closeAll, readDatabase } from './databases.js';
import { exportDatabase } from './export.js';
import { listKeys, readKey } from './namespaces.js';
import { listObjects, readObject } from './objects.js';
import { overview } from './overview.js';
import { listInstances, listWorkflows, readInstance } from './workflows.js';

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

function print(text, refused) {
  process.stdout.write(`${JSON.stringify({ bytes: Buffer.byteLength(text), refused })}\n${text}`);
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

let asked = '';
process.stdin.setEncoding('utf8').on('data', (piece) => {
  asked += piece;
  if (!asked.endsWith('\n')) return;
  const question = JSON.parse(asked);
  asked = '';
  answer(question);
});
