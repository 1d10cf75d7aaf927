-- The outbox and fact that a deploy row is from. A pending fact delays only facts of its own app.
ALTER TABLE deploys ADD COLUMN observed_outbox TEXT;
ALTER TABLE deploys ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
DROP TABLE outboxes;
