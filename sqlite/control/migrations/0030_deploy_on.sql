-- Which pushes to an app's own repository are deployed.
ALTER TABLE apps ADD COLUMN deploy_on TEXT NOT NULL DEFAULT 'main' CHECK (deploy_on IN ('main', 'tags', 'manual'));
