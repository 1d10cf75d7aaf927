-- Rows older than the retention are removed in small batches, oldest first.
CREATE INDEX events_age ON events (created_at);
CREATE INDEX users_age ON users (updated_at);
CREATE INDEX users_app ON users (app_id, updated_at);
CREATE INDEX insights_age ON insights (updated_at);
