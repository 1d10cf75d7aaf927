// Reads Durable Objects: lists the objects of a class, and shows the storage of one.
import { lstatSync, opendirSync } from 'node:fs';
import { join } from 'node:path';
import { json, Refusal } from './answer.js';
import { isTable, look, open, prepare, tables } from './databases.js';
import { decoded, LISTED_BYTES } from './values.js';

const OBJECT = /^([0-9a-f]{64})\.sqlite$/;

export function sizeOf(path) {
  let size = 0;
  for (const suffix of ['', '-wal']) size += lstatSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0;
  return size;
}

/** Yields the ids of the objects in the directory of a class, in no order. */
export function* objectsIn(directory) {
  const stat = lstatSync(directory, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isDirectory()) throw new Refusal('storage_unreadable', 'its path is not a directory');
  const entries = opendirSync(directory);
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      const id = OBJECT.exec(entry.name)?.[1];
      if (id !== undefined && entry.isFile()) yield id;
    }
  } finally {
    entries.closeSync();
  }
}

/** Returns a function that finds an object's name and next alarm by its id; null where workerd has stored none. */
function alarmsOf(directory) {
  const database = open(join(directory, 'metadata.sqlite'), true);
  if (database === null || !isTable(database, '_cf_ALARM')) return () => ({ name: null, alarm: null });
  // workerd stores the time in nanoseconds, too large for a double.
  const find = database.prepare(
    `SELECT substr(actor_name, 1, 1024) AS name,
       CASE WHEN typeof(scheduled_time) = 'integer' THEN scheduled_time / 1000000 END AS alarm
     FROM _cf_ALARM WHERE actor_id = ?`,
  );
  return (id) => find.get(id) ?? { name: null, alarm: null };
}

/** As `alarmsOf`. @param given alarms by object id, for an app in the bucket, whose directory lacks alarms; else null */
function alarmsIn(directory, given) {
  return given === null ? alarmsOf(directory) : (id) => given[id] ?? { name: null, alarm: null };
}

function objectRecord(directory, id, { name, alarm }, given = null) {
  const time = alarm === null || Math.abs(alarm) > 8.64e15 ? null : new Date(alarm).toISOString();
  return { id, name: given ?? name, bytes: sizeOf(join(directory, `${id}.sqlite`)), next_alarm: time };
}

export function listObjects({ directory, alarms: given, after, limit }) {
  let ids = [];
  const cut = () => {
    ids = ids.sort().slice(0, limit + 1);
  };
  for (const id of objectsIn(directory)) {
    if (after !== null && id <= after) continue;
    if (ids.push(id) > 10_000) cut();
  }
  cut();
  const alarms = alarmsIn(directory, given);
  const items = ids.slice(0, limit).map((id) => json(objectRecord(directory, id, alarms(id))));
  const next = ids.length > limit ? ids[limit - 1] : null;
  return `{"object":null,"items":[${items}],"next":${JSON.stringify(next)}}`;
}

export function readObject(asked) {
  const { directory, alarms, object, name, key, after, limit } = asked;
  const path = join(directory, `${object}.sqlite`);
  const database = open(path, true);
  if (database === null) throw new Refusal('storage_not_found', 'the class has no such object');
  const record = {
    ...objectRecord(directory, object, alarmsIn(directory, alarms)(object), name),
    tables: tables(database),
  };
  const head = `"object":${json(record)}`;
  if (asked.sql !== null || asked.table !== null) return `{${head},"items":[],${look(open(path), asked)}}`;
  const items = [];
  let next = null;
  if (isTable(database, '_cf_KV')) {
    // The first page has no condition, because a key may be the empty string.
    const behind = after === null ? '' : 'WHERE key > ?';
    const sql =
      key === null
        ? `SELECT key, octet_length(value), CASE WHEN octet_length(value) <= ${LISTED_BYTES} THEN value END
           FROM _cf_KV ${behind} ORDER BY key LIMIT ${limit + 1}`
        : `SELECT key, octet_length(value), value FROM _cf_KV WHERE key = ?`;
    const statement = prepare(database, sql);
    let last = null;
    for (const [found, length, value] of statement.iterate(
      ...[key ?? after].filter((each) => each !== null),
    )) {
      if (items.length === limit) {
        next = last;
        break;
      }
      last = String(found);
      const shown = value === null ? { $large: Number(length ?? 0) } : decoded(value);
      items.push(json({ key: last.toWellFormed(), bytes: Number(length ?? 0), value: shown }));
    }
  }
  return `{${head},"items":[${items}],"next":${JSON.stringify(next)}}`;
}

export function countObjects(directory) {
  let objects = 0;
  let size = 0;
  for (const id of objectsIn(directory)) {
    objects++;
    size += sizeOf(join(directory, `${id}.sqlite`));
  }
  return { objects, bytes: size };
}
