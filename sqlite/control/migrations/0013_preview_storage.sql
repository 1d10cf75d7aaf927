-- What a new preview keeps at its beginning. A statement ends where a line does.
ALTER TABLE apps ADD COLUMN previews_storage TEXT NOT NULL DEFAULT 'empty' CHECK (previews_storage IN ('empty', 'copy'));
