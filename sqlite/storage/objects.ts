// The index of one app's R2 buckets: objects, their metadata, and the files with their bytes.
import Database from 'better-sqlite3';

/** One entry for each schema version, in order. Never change a released one: add the next. */
const MIGRATIONS = [
  `
  CREATE TABLE objects (
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,                    -- UTF-8, so that they sort by their bytes
    version TEXT NOT NULL,                -- owner of its blobs
    size INTEGER NOT NULL,                -- in bytes
    etag TEXT NOT NULL,
    uploaded INTEGER NOT NULL,            -- times here are ms since 1970
    storage_class TEXT NOT NULL,
    checksums TEXT NOT NULL,              -- JSON: hex digests by algorithm
    http_metadata TEXT NOT NULL,          -- JSON
    custom_metadata TEXT NOT NULL,        -- JSON
    PRIMARY KEY (bucket, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE uploads (
    id TEXT PRIMARY KEY,                  -- owner of its parts until it is completed
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'open',   -- 'completed' and 'aborted' are kept for a while, for those who ask again
    created INTEGER NOT NULL,
    storage_class TEXT NOT NULL,
    http_metadata TEXT NOT NULL,
    custom_metadata TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX uploads_by_age ON uploads (created);

  CREATE TABLE blobs (
    owner TEXT NOT NULL,
    part INTEGER NOT NULL,
    file TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,                   -- of the part; the object's own for an object of one part
    md5 TEXT NOT NULL,
    PRIMARY KEY (owner, part)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE usage (
    bucket TEXT PRIMARY KEY,
    objects INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER object_made AFTER INSERT ON objects BEGIN
    INSERT INTO usage VALUES (new.bucket, 1, new.size)
      ON CONFLICT DO UPDATE SET objects = objects + 1, bytes = bytes + new.size;
  END;
  CREATE TRIGGER object_gone AFTER DELETE ON objects BEGIN
    UPDATE usage SET objects = objects - 1, bytes = bytes - old.size WHERE bucket = old.bucket;
  END;

  -- What all blobs have in bytes, those of unfinished uploads too.
  CREATE TABLE kept (bytes INTEGER NOT NULL) STRICT;
  INSERT INTO kept VALUES (0);
  CREATE TRIGGER blob_made AFTER INSERT ON blobs BEGIN UPDATE kept SET bytes = bytes + new.size; END;
  CREATE TRIGGER blob_gone AFTER DELETE ON blobs BEGIN UPDATE kept SET bytes = bytes - old.size; END;
  `,
];

/** An object, without its bytes. Metadata and checksums are JSON. */
export interface ObjectRow {
  bucket: string;
  key: Buffer;
  version: string;
  size: number;
  etag: string;
  uploaded: number;
  storage_class: string;
  checksums: string;
  http_metadata: string;
  custom_metadata: string;
}

export interface UploadRow {
  id: string;
  bucket: string;
  key: Buffer;
  state: 'open' | 'completed' | 'aborted';
  created: number;
  storage_class: string;
  http_metadata: string;
  custom_metadata: string;
}

/** A file with the bytes of an object, or of a part of an upload. */
export interface BlobRow {
  owner: string;
  part: number;
  file: string;
  size: number;
  etag: string;
  md5: string;
}

export interface UsageRow {
  bucket: string;
  objects: number;
  bytes: number;
}

/**
 * Opens the index of an app's buckets and migrates it. A commit survives the end of this process. It survives a power cut
 * only after a sync of `<path>-wal`. The caller does this sync, which can be slow.
 * @throws {Error} when the file was written by a newer Cellar
 */
export function openObjectIndex(path: string) {
  const database = new Database(path);
  try {
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    migrate(database, path);
  } catch (error) {
    database.close();
    throw error;
  }
  return { ...objectQueries(database), close: () => database.close() };
}
export type ObjectIndex = ReturnType<typeof openObjectIndex>;

function migrate(database: Database.Database, path: string): void {
  const version = database.pragma('user_version', { simple: true }) as number;
  if (version > MIGRATIONS.length)
    throw new Error(
      `${path} was written by a newer Cellar (schema ${version}; this Cellar knows ${MIGRATIONS.length}); start the newer version`,
    );
  if (version === MIGRATIONS.length) return;
  database.transaction(() => {
    for (const migration of MIGRATIONS.slice(version)) database.exec(migration);
    database.pragma(`user_version = ${MIGRATIONS.length}`);
  })();
}

function objectQueries(database: Database.Database) {
  const object = database.prepare<[string, Buffer], ObjectRow>(
    'SELECT * FROM objects WHERE bucket = ? AND key = ?',
  );
  const page = database.prepare<[string, Buffer, number], ObjectRow>(
    `SELECT bucket, key, version, size, etag, uploaded, storage_class, checksums,
       '{}' AS http_metadata, '[]' AS custom_metadata
       FROM objects WHERE bucket = ? AND key >= ? ORDER BY key LIMIT ?`,
  );
  const addObject = database.prepare<[ObjectRow]>(
    `INSERT INTO objects VALUES (@bucket, @key, @version, @size, @etag, @uploaded, @storage_class, @checksums,
       @http_metadata, @custom_metadata)`,
  );
  const deleteObject = database.prepare<[string, Buffer], { version: string }>(
    'DELETE FROM objects WHERE bucket = ? AND key = ? RETURNING version',
  );
  const blobs = database.prepare<[string], BlobRow>('SELECT * FROM blobs WHERE owner = ? ORDER BY part');
  const addBlob = database.prepare<[BlobRow]>(
    'INSERT INTO blobs VALUES (@owner, @part, @file, @size, @etag, @md5)',
  );
  const giveBlob = database.prepare<[string, string, number]>(
    'UPDATE blobs SET owner = ? WHERE owner = ? AND part = ?',
  );
  const deleteBlob = database.prepare<[string, number], { file: string }>(
    'DELETE FROM blobs WHERE owner = ? AND part = ? RETURNING file',
  );
  const deleteBlobs = database.prepare<[string], { file: string }>(
    'DELETE FROM blobs WHERE owner = ? RETURNING file',
  );
  const blobOfFile = database.prepare<[string], { owner: string }>('SELECT owner FROM blobs WHERE file = ?');
  const upload = database.prepare<[string], UploadRow>('SELECT * FROM uploads WHERE id = ?');
  const addUpload = database.prepare<[Omit<UploadRow, 'state'>]>(
    `INSERT INTO uploads (id, bucket, key, created, storage_class, http_metadata, custom_metadata)
       VALUES (@id, @bucket, @key, @created, @storage_class, @http_metadata, @custom_metadata)`,
  );
  const setUploadState = database.prepare<[UploadRow['state'], string]>(
    'UPDATE uploads SET state = ? WHERE id = ?',
  );
  const countUploads = database.prepare<[], { n: number }>('SELECT count(*) AS n FROM uploads');
  const oldUploads = database.prepare<[number, number], { id: string }>(
    'SELECT id FROM uploads WHERE created < ? LIMIT ?',
  );
  const deleteUpload = database.prepare<[string]>('DELETE FROM uploads WHERE id = ?');
  const usage = database.prepare<[], UsageRow>('SELECT * FROM usage ORDER BY bucket');
  const kept = database.prepare<[], { bytes: number }>('SELECT bytes FROM kept');

  const files = (rows: { file: string }[]) => rows.map(({ file }) => file);

  return {
    object: (bucket: string, key: Buffer): ObjectRow | undefined => object.get(bucket, key),
    /**
     * Returns objects from a key on, in the order of the keys' bytes. Their metadata is left out, because the metadata of many
     * objects may not fit in memory.
     */
    page: (bucket: string, from: Buffer, limit: number): ObjectRow[] => page.all(bucket, from, limit),
    /** Adds or replaces an object. @returns the files that are no longer needed */
    putObject: (row: ObjectRow): string[] => {
      const before = deleteObject.get(row.bucket, row.key);
      addObject.run(row);
      return before ? files(deleteBlobs.all(before.version)) : [];
    },
    /** @returns the files that are no longer needed */
    deleteObject: (bucket: string, key: Buffer): string[] => {
      const before = deleteObject.get(bucket, key);
      return before ? files(deleteBlobs.all(before.version)) : [];
    },
    /** Returns the blobs of an object's version or of an upload, in order. */
    blobs: (owner: string): BlobRow[] => blobs.all(owner),
    /** Adds or replaces a blob. @returns the replaced file, which is no longer needed, if any */
    putBlob: (row: BlobRow): string[] => {
      const before = files(deleteBlob.all(row.owner, row.part));
      addBlob.run(row);
      return before;
    },
    /** Moves a part from the upload `from` to the object's version `to`. */
    giveBlob: (from: string, part: number, to: string): void => void giveBlob.run(to, from, part),
    /** @returns the files that are no longer needed */
    deleteBlobs: (owner: string): string[] => files(deleteBlobs.all(owner)),
    hasFile: (file: string): boolean => blobOfFile.get(file) !== undefined,
    upload: (id: string): UploadRow | undefined => upload.get(id),
    addUpload: (row: Omit<UploadRow, 'state'>): void => void addUpload.run(row),
    setUploadState: (id: string, state: UploadRow['state']): void => void setUploadState.run(state, id),
    /** Returns the number of uploads that are open, or ended recently. */
    countUploads: (): number => countUploads.get()!.n,
    oldUploads: (before: number, limit: number): string[] =>
      oldUploads.all(before, limit).map(({ id }) => id),
    deleteUpload: (id: string): void => void deleteUpload.run(id),
    /** Returns the usage of every bucket that ever had an object. */
    usage: (): UsageRow[] => usage.all(),
    /** Returns the bytes of all blobs, those of unfinished uploads included. */
    keptBytes: (): number => kept.get()!.bytes,
    /** Runs `work` as one transaction. */
    transaction: <T>(work: () => T): T => database.transaction(work).immediate(),
  };
}
