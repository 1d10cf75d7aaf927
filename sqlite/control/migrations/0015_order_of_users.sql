-- Users and insights are ordered by their last change, which clock changes do not affect. The oldest are evicted first.
ALTER TABLE users ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE users SET seq = older.n FROM (
    SELECT app_id, user_id, row_number() OVER (PARTITION BY app_id ORDER BY updated_at, user_id) AS n FROM users
  ) AS older
  WHERE older.app_id = users.app_id AND older.user_id = users.user_id;
DROP INDEX users_app;
CREATE INDEX users_app ON users (app_id, seq);

ALTER TABLE insights ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE insights SET seq = older.n FROM (
    SELECT app_id, title, row_number() OVER (PARTITION BY app_id ORDER BY updated_at, title) AS n FROM insights
  ) AS older
  WHERE older.app_id = insights.app_id AND older.title = insights.title;
CREATE INDEX insights_app ON insights (app_id, seq);
