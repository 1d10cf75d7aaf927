// Run by a process of the app's user: answers one question about what an app keeps. What lies there may be made to harm whoever
// reads it: nothing is written, nothing but the named files is opened, and the host ends this process when it takes too long,
// too much memory, or prints too much. The question comes on standard input, the answer goes to standard output as JSON.
import { kind, question, Refusal } from './answer.js';
import { readDatabase } from './databases.js';
import { exportDatabase } from './export.js';
import { listKeys, readKey } from './namespaces.js';
import { listObjects, readObject } from './objects.js';
import { overview } from './overview.js';
import { listInstances, listWorkflows, readInstance } from './workflows.js';

/** How this process ends that has the reason of a refusal in its output. */
const REFUSED = 3;

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

try {
  process.stdout.write(answers[kind](question));
} catch (error) {
  const refusal =
    error instanceof Refusal
      ? error
      : error.code === 'ERR_SQLITE_ERROR'
        ? new Refusal('storage_unreadable', `the database cannot be read: ${error.message}`)
        : null;
  if (refusal === null) throw error;
  process.stdout.write(JSON.stringify({ code: refusal.code, message: refusal.message }));
  process.exitCode = REFUSED;
}
