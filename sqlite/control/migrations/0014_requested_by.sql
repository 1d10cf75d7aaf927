-- Who requested a rollback or a redeploy. `author` is the author of the commit.
ALTER TABLE deploys ADD COLUMN requested_by TEXT;
