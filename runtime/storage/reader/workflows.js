// Reads Workflows: an instance is a Durable Object of workerd's Workflows engine, which stores its state under its own
// keys.
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { json, placeOf, Refusal } from './answer.js';
import { isTable, open } from './databases.js';
import { countObjects, objectsIn } from './objects.js';
import { deserialized } from './serialized.js';
import { keptValue, LISTED_BYTES } from './values.js';

/** Maximum number of instances searched for one page of a list. */
const SCANNED = 2_000;
/** Maximum characters of an instance's value, as JSON, or error text. Longer values are left out, longer texts are cut. */
const SHOWN_BYTES = 16 * 1024;
/** Maximum length of all shown values of an instance together, in characters of JSON. Further values are left out. */
const SHOWN_IN_ALL = 4 * 1024 * 1024;
/** Maximum number of steps shown of one instance. */
const STEPS_SHOWN = 1_000;
/** Maximum number of history events of an instance that are searched for the times of its steps. */
const HISTORY = 50_000;

export function listWorkflows({ workflows }) {
  return `[${workflows.map(({ directory, counted, ...named }) => {
    const { objects, bytes: size } = counted ?? countObjects(directory);
    return json({ ...named, instances: objects, bytes: size });
  })}]`;
}

function timeOf(value) {
  const time = typeof value === 'number' && Math.abs(value) <= 8.64e15 ? new Date(value) : null;
  return time === null || Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** Deserializes an object that an instance has stored; null when it is missing, too long or not an object. */
function stateOf(serialized) {
  try {
    const value = serialized === undefined || serialized === null ? null : deserialized(serialized);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/** Opens an instance's file. Returns null when the instance does not exist. */
function openInstance(path, statuses) {
  const database = open(path, true);
  if (database === null || !isTable(database, '_cf_KV')) return null;
  const row = database.prepare(`SELECT value FROM _cf_KV WHERE key = 'meta'`).get();
  const meta = stateOf(row?.value);
  if (meta === null || typeof meta.id !== 'string') {
    database.close();
    return null;
  }
  const last = database
    .prepare(`SELECT value FROM _cf_KV WHERE key >= 'l:' AND key < 'l;' ORDER BY key DESC LIMIT 1`)
    .get();
  const created = timeOf(meta.created) ?? new Date(0).toISOString();
  const record = {
    id: meta.id.slice(0, 100).toWellFormed(),
    status: statuses.includes(meta.status) ? meta.status : 'queued',
    created_at: created,
    changed_at: timeOf(stateOf(last?.value)?.timestamp) ?? created,
  };
  return { database, meta, record };
}

/**
 * Returns when an instance was made, in ms since 1970; 0 when that is unknown.
 * @param isLoaded whether the file was loaded from the bucket. Its creation time is then not the instance's
 */
function madeAt(path, statuses, isLoaded) {
  if (!isLoaded) return Math.floor(lstatSync(path, { throwIfNoEntry: false })?.birthtimeMs ?? 0);
  const found = openInstance(path, statuses);
  if (found === null) return 0;
  found.database.close();
  return Date.parse(found.record.created_at);
}

export function listInstances({ directory, statuses, isLoaded, status, since, until, after, limit }) {
  const files = [];
  for (const id of objectsIn(directory))
    files.push({ id, at: madeAt(join(directory, `${id}.sqlite`), statuses, isLoaded) });
  const behind = (one, other) => other.at - one.at || (one.id < other.id ? -1 : 1);
  const [at, id] = after === null ? [] : placeOf(after, instancePlace);
  const rest = files.filter((file) => after === null || behind({ at, id }, file) < 0).sort(behind);
  const isAskedFor = (record) => {
    const at = Date.parse(record.created_at);
    const isInTime = (since === null || at >= since) && (until === null || at < until);
    return isInTime && (status === null || record.status === status);
  };
  const items = [];
  let next = null;
  for (const [n, file] of rest.entries()) {
    if (items.length === limit || n === SCANNED) {
      next = JSON.stringify([rest[n - 1].at, rest[n - 1].id]);
      break;
    }
    const found = openInstance(join(directory, `${file.id}.sqlite`), statuses);
    found?.database.close();
    if (found !== null && isAskedFor(found.record)) items.push(json(found.record));
  }
  return `{"items":[${items}],"next":${JSON.stringify(next)}}`;
}

export function readInstance({ path, statuses }) {
  const found = openInstance(path, statuses);
  if (found === null) throw new Refusal('workflow_instance_not_found', 'the Workflow has no such instance');
  const { database, meta, record } = found;
  let left = SHOWN_IN_ALL;
  const shown = (value) => {
    if (value === undefined) return null;
    const kept = keptValue(value);
    const size = JSON.stringify(kept).length;
    if (size > SHOWN_BYTES || size > left) return { $large: size };
    left -= size;
    return kept;
  };
  const times = timesOf(database);
  const steps = [];
  const rows = database.prepare(
    `SELECT key, octet_length(value) AS size, CASE WHEN octet_length(value) <= ${LISTED_BYTES} THEN value END AS value
     FROM _cf_KV WHERE key >= 's:' AND key < 's;'`,
  );
  for (const row of rows.iterate()) steps.push(stepOf(row, times));
  steps.sort((one, other) => one.order - other.order);
  const leftOut = Math.max(0, steps.length - STEPS_SHOWN);
  return json({
    ...record,
    params: shown(meta.params),
    output: shown(meta.output),
    error: errorOf(meta.error),
    steps: steps.slice(leftOut).map(({ order, output, ...step }) => ({ ...step, output: shown(output) })),
    steps_left_out: leftOut,
  });
}

function errorOf(error) {
  if (typeof error !== 'object' || error === null) return null;
  const text = (value) =>
    String(value ?? '')
      .slice(0, SHOWN_BYTES)
      .toWellFormed();
  return { name: text(error.name), message: text(error.message) };
}

/** Returns start and end times of steps, by kind and name, from the instance's history. */
function timesOf(database) {
  const times = new Map();
  const rows = database.prepare(
    `SELECT value FROM _cf_KV WHERE key >= 'l:' AND key < 'l;' AND octet_length(value) <= ${LISTED_BYTES}
     ORDER BY key DESC LIMIT ${HISTORY}`,
  );
  for (const { value } of rows.iterate()) {
    const event = stateOf(value);
    const [, kind, what] =
      /^(step|sleep|wait)_(started|completed|errored|timed_out)$/.exec(event?.type) ?? [];
    if (kind === undefined) continue;
    const key = `${kind}:${event.stepName}`;
    const known = times.get(key) ?? { started: null, ended: null };
    if (what === 'started') known.started = timeOf(event.timestamp);
    else known.ended ??= timeOf(event.timestamp);
    times.set(key, known);
  }
  return times;
}

const KINDS = { do: 'step', sleep: 'sleep', waitForEvent: 'wait' };

/** Parses a step from its key, `s:<type>:<count>:<name>`, and its value. A step with too long a value has completed. */
function stepOf({ key, size, value }, times) {
  const [, type, count, name] = /^s:(do|sleep|waitForEvent):(\d{1,9}):(.*)$/s.exec(key) ?? [
    '',
    'do',
    '0',
    key,
  ];
  const state = stateOf(value) ?? { done: true, value: undefined, ord: Number.MAX_SAFE_INTEGER };
  const { started = null, ended = null } = times.get(`${KINDS[type]}:${name}-${count}`) ?? {};
  const waits = typeof state.retryAt === 'number' || type !== 'do';
  const status = state.error ? 'errored' : state.done ? 'complete' : waits ? 'waiting' : 'running';
  return {
    name: name.slice(0, 256).toWellFormed(),
    count: Number(count),
    type,
    status,
    attempts: type === 'do' && Number.isSafeInteger(state.attempts) ? state.attempts : null,
    started_at: started,
    ended_at: status === 'complete' || status === 'errored' ? ended : null,
    due_at: status === 'waiting' ? timeOf(state.retryAt ?? state.deadline) : null,
    error: errorOf(state.error),
    output:
      value === null
        ? { $large: Number(size) }
        : state.stream
          ? { $large: Number(state.stream.bytes) || 0 }
          : state.value,
    order: Number(state.ord) || 0,
  };
}

/** Returns a cursor's creation time and id of an instance; null when it is invalid. */
function instancePlace([at, id]) {
  return typeof at === 'number' && typeof id === 'string' ? [at, id] : null;
}
