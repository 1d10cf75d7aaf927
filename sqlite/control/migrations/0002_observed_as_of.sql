-- When the copy of the host's facts was seen: after which fact of which outbox. What was seen before is not written over it.
ALTER TABLE apps ADD COLUMN observed_outbox TEXT;
ALTER TABLE apps ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
