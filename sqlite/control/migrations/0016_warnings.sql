-- Warnings for the author of a release, as a JSON list of texts.
ALTER TABLE deploys ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
