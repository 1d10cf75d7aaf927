-- What an API key may do at most, and the only app that it is for; null for all apps. Existing keys get `admin`: they may
-- do all that their account may.
ALTER TABLE keys ADD COLUMN scope TEXT NOT NULL DEFAULT 'admin' CHECK (scope IN ('read', 'deploy', 'admin'));
ALTER TABLE keys ADD COLUMN app_id TEXT REFERENCES apps (id) ON DELETE CASCADE;
ALTER TABLE keys ADD COLUMN expires_at TEXT;
ALTER TABLE keys ADD COLUMN last_used_at TEXT;
CREATE INDEX keys_app ON keys (app_id) WHERE app_id IS NOT NULL;
