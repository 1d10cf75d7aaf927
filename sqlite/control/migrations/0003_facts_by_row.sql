-- The host's outbox, and the number in it, of the fact from which a deploy's row was copied. So a pending fact delays only
-- facts of its own app.
ALTER TABLE deploys ADD COLUMN observed_outbox TEXT;
ALTER TABLE deploys ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
DROP TABLE outboxes;
