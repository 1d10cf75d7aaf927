-- What is older than the retention is removed a few rows at a time, oldest first.
CREATE INDEX events_age ON events (created_at);
CREATE INDEX users_age ON users (updated_at);
CREATE INDEX users_app ON users (app_id, updated_at);
CREATE INDEX insights_age ON insights (updated_at);
