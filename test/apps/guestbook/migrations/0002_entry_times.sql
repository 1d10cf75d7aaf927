ALTER TABLE entries ADD COLUMN created_at TEXT;
CREATE INDEX entries_by_time ON entries (created_at);
