-- Where an app keeps its data. Existing apps keep theirs on the machine.
ALTER TABLE apps ADD COLUMN storage TEXT NOT NULL DEFAULT 'local' CHECK (storage IN ('local', 'bucket'));
