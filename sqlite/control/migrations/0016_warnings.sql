-- What the author of a release has to know, as a JSON list of texts.
ALTER TABLE deploys ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
