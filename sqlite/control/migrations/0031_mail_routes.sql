-- The e-mail addresses of an app: `name@domain`, or `*@domain` for all other addresses of the domain.
CREATE TABLE mail_routes (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  address TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (app_id, address)
) STRICT, WITHOUT ROWID;
