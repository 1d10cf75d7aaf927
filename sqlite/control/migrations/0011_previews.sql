-- Whether a push to a branch other than main creates a preview.
ALTER TABLE apps ADD COLUMN previews_branches INTEGER NOT NULL DEFAULT 0 CHECK (previews_branches IN (0, 1));
