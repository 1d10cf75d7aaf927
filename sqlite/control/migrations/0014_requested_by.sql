-- Who requested a rollback or a redeploy. The author is that of the commit.
ALTER TABLE deploys ADD COLUMN requested_by TEXT;
