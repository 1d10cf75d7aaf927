// Checks the exports of a Worker on trial, before its deploy.

import { DurableObject, WorkerEntrypoint, WorkflowEntrypoint } from 'cloudflare:workers';
import * as app from 'cellar-app-entry';

/**
 * Facts about the release, filled in by the host: the entry's file in the project, the classes of Durable Objects, needed
 * handlers with their triggers' keys, and the line prefixes for a fault and for a note in the deploy log.
 */
const { file, classes, needed, fault, note } = 'cellar-facts';

/** All handlers that a Worker may have, even those that Cellar never calls. A Worker with only one of these is accepted. */
const HANDLERS = ['fetch', 'scheduled', 'queue', 'email', 'connect', 'tail', 'tailStream', 'trace', 'test'];
const ADVICE = 'write `export default { fetch(request) {…} }`';
/** Maximum number of properties that a message names. */
const NAMED = 5;
const NAME_LENGTH = 40;

const { default: main, ...named } = app;
const isEntrypoint = isClassOf(main, [WorkerEntrypoint]);
const handlers = isEntrypoint ? main.prototype : isObject(main) ? main : {};

function isClassOf(value, bases) {
  return typeof value === 'function' && bases.some((base) => value.prototype instanceof base);
}

function isObject(value) {
  return typeof value === 'object' && value !== null;
}

function has(object, name) {
  return typeof object[name] === 'function';
}

/**
 * Whether the default export may have a handler. The fields of a class exist only on instances, so the text of the class is
 * searched for the name.
 */
function mayHave(name) {
  if (has(handlers, name)) return true;
  if (!isEntrypoint) return false;
  for (let each = main; each !== WorkerEntrypoint; each = Object.getPrototypeOf(each))
    if (Function.prototype.toString.call(each).includes(name)) return true;
  return false;
}

/** Whether an event or another app can call a named export. */
function isCalled([name, value]) {
  if (classes.includes(name) || isClassOf(value, [DurableObject, WorkerEntrypoint, WorkflowEntrypoint]))
    return true;
  return isObject(value) && HANDLERS.some((handler) => has(value, handler));
}

/** Returns why no event would ever call the default export. */
function whyUseless() {
  if (main === undefined)
    return `the default export is missing, and no exported class extends DurableObject, WorkerEntrypoint or WorkflowEntrypoint: ${ADVICE}`;
  if (typeof main === 'function') {
    const what = /^class\b/.test(Function.prototype.toString.call(main))
      ? 'a class that does not extend WorkerEntrypoint'
      : 'a function';
    return `the default export is ${what}, and nothing calls it: ${ADVICE}`;
  }
  if (!isObject(main)) return `the default export is not an object with handlers: ${ADVICE}`;
  const names = Object.keys(main).map((name) => name.slice(0, NAME_LENGTH));
  const given = names.length === 0 ? '' : ` (it has ${names.slice(0, NAMED).join(', ')})`;
  return `the default export has no handler${given}, so it would answer nothing: ${ADVICE}`;
}

function say(mark, words) {
  console.error(`${mark}${file}: ${words}`);
}

// An entrypoint without handlers is useful too, because other apps may call its methods.
const isUseful =
  isEntrypoint || HANDLERS.some((name) => has(handlers, name)) || Object.entries(named).some(isCalled);
if (!isUseful) say(fault, whyUseless());
else if (!mayHave('fetch'))
  say(note, 'no fetch() in the default export: requests to the app are answered 404');
for (const [name, key] of needed)
  if (!mayHave(name)) say(fault, `the default export has no handler ${name}(), which ${key} needs`);
