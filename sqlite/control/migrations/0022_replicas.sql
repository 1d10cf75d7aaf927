-- How many processes an app runs.
ALTER TABLE apps ADD COLUMN replicas INTEGER NOT NULL DEFAULT 1 CHECK (replicas BETWEEN 1 AND 16);
