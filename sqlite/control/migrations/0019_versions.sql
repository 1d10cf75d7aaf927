-- The version that a deploy serves, as JSON; NULL if the deploy built its release.
ALTER TABLE deploys ADD COLUMN version TEXT;
