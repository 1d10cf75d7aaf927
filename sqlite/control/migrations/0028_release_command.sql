-- Command of an app that runs before a new version is live. NULL: nothing runs.
ALTER TABLE apps ADD COLUMN release_command TEXT;
