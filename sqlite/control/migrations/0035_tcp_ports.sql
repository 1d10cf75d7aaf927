-- The TCP ports of apps. Each statement ends at a line end.
CREATE TABLE tcp_ports (
  port INTEGER PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX tcp_ports_app ON tcp_ports (app_id);
