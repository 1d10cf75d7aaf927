-- The initial storage of a new preview.
ALTER TABLE apps ADD COLUMN previews_storage TEXT NOT NULL DEFAULT 'empty' CHECK (previews_storage IN ('empty', 'copy'));
