-- The host's outbox, and the number in it, of the fact from which the host's facts were copied. Older facts do not overwrite
-- them.
ALTER TABLE apps ADD COLUMN observed_outbox TEXT;
ALTER TABLE apps ADD COLUMN observed_seq INTEGER NOT NULL DEFAULT 0;
