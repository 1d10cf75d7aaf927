-- Who asked for a deploy of what was there already: a rollback, or a deploy again. Its author is the commit's.
ALTER TABLE deploys ADD COLUMN requested_by TEXT;
