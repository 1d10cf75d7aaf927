// Reads KV namespaces.
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { json, limitBytes, Refusal } from './answer.js';
import { isTable, open, prepare } from './databases.js';

/** Matches a row's reference to a file in the namespace's own directory, and captures the file's name. */
const BLOB = /^[0-9a-f]{64}\/b\/([0-9a-f]{1,128})$/;
/** Maximum number of caches that are searched. workerd makes one for each configuration of the bucket. */
const MOST_CACHES = 100;
/** SQL condition for keys that have not expired. Its parameter is the current time, in ms since 1970. */
export const PRESENT = '(expiration IS NULL OR expiration > ?)';

export function openNamespace(path) {
  const database = open(path);
  return database !== null && isTable(database, 'entries') ? database : null;
}

export function listKeys({ path, prefix, after, limit }) {
  const database = openNamespace(path);
  const items = [];
  let next = null;
  if (database !== null) {
    const statement = prepare(
      database,
      `SELECT key, octet_length(value), expiration, substr(metadata, 1, 2048) FROM entries
       WHERE key > ? AND key >= ? AND ${PRESENT} ORDER BY key LIMIT ${limit + 1}`,
    );
    for (const row of statement.iterate(after ?? '', prefix, Date.now())) {
      const [key, length, expiration, metadata] = row;
      if (!String(key).startsWith(prefix)) break;
      if (items.length === limit) {
        next = items.at(-1).key;
        break;
      }
      items.push({ key, bytes: length === null ? null : Number(length), ...entry(expiration, metadata) });
    }
  }
  return `{"items":[${items.map(json)}],"next":${JSON.stringify(next)}}`;
}

export function readKey({ path, blobs, cache, key }) {
  const database = openNamespace(path);
  const statement =
    database &&
    prepare(database, `SELECT value, blob, expiration, metadata FROM entries WHERE key = ? AND ${PRESENT}`);
  const row = statement?.get(key, Date.now());
  if (!row) throw new Refusal('storage_not_found', 'the namespace has no such key');
  const [inline, blob, expiration, metadata] = row;
  const value = Buffer.from(inline ?? readBlob([blobs, ...cached(cache, blobs)], blob));
  return json({ key, value_base64: value.toString('base64'), ...entry(expiration, metadata) });
}

function entry(expiration, metadata) {
  const time = expiration === null ? null : new Date(Number(expiration));
  return {
    expires_at: time && !Number.isNaN(time.getTime()) ? time.toISOString() : null,
    metadata: parsed(metadata),
  };
}

function parsed(metadata) {
  try {
    return metadata === null ? null : JSON.parse(String(metadata));
  } catch {
    return null;
  }
}

/** Returns the namespace's directories in workerd's caches of values from the bucket. */
function cached(cache, blobs) {
  if (!isDirectory(cache)) return [];
  const caches = readdirSync(cache).slice(0, MOST_CACHES);
  return caches
    .map((name) => join(cache, name))
    .filter(isDirectory)
    .map((each) => join(each, basename(dirname(blobs)), 'b'));
}

function isDirectory(path) {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function isFile(path) {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** Returns a value that is in a file. @param places directories where the file may be */
function readBlob(places, blob) {
  const nowhere = new Refusal('storage_unreadable', 'the file with the value of the key is missing');
  const file = BLOB.exec(blob)?.[1];
  if (file === undefined) throw nowhere;
  const isThere = (place) => isDirectory(dirname(place)) && isDirectory(place) && isFile(join(place, file));
  const place = places.find(isThere);
  if (place === undefined) throw nowhere;
  const path = join(place, file);
  const stat = lstatSync(path);
  if (stat.size > (limitBytes / 4) * 3)
    throw new Refusal(
      'answer_too_large',
      `the value has ${stat.size} bytes; at most ${(limitBytes / 4) * 3} are read`,
    );
  return readFileSync(path);
}
