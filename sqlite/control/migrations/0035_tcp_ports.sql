-- The TCP ports of apps.
CREATE TABLE tcp_ports (
  port INTEGER PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX tcp_ports_app ON tcp_ports (app_id);
