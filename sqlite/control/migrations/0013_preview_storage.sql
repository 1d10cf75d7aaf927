-- The initial storage of a new preview. Each statement ends at a line end.
ALTER TABLE apps ADD COLUMN previews_storage TEXT NOT NULL DEFAULT 'empty' CHECK (previews_storage IN ('empty', 'copy'));
