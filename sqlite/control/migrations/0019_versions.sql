-- The version that a deploy serves, as JSON; NULL where it has built that itself.
ALTER TABLE deploys ADD COLUMN version TEXT;
