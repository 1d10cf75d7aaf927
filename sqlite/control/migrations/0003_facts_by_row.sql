-- After which fact of which outbox a deploy was written: a fact that waits holds up only those of its own app.
ALTER TABLE deploys ADD COLUMN observed_outbox TEXT;
ALTER TABLE deploys ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
DROP TABLE outboxes;
