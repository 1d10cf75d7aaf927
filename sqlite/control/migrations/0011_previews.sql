-- Whether a push to another branch than main makes a preview. A statement ends where a line does.
ALTER TABLE apps ADD COLUMN previews_branches INTEGER NOT NULL DEFAULT 0 CHECK (previews_branches IN (0, 1));
