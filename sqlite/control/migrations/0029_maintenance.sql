-- Whether visitors of an app get its maintenance page, and that page. NULL: Cellar's own.
ALTER TABLE apps ADD COLUMN maintenance INTEGER NOT NULL DEFAULT 0;
ALTER TABLE apps ADD COLUMN maintenance_html TEXT;
