-- The outbox and fact that the copy of the host's facts is from. Older facts do not overwrite it.
ALTER TABLE apps ADD COLUMN observed_outbox TEXT;
ALTER TABLE apps ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
