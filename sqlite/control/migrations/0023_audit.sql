-- What people and programs changed, and sign-ins. Names and slugs are as they were at that time. `actor` is an account's
-- id, `runner` for the runner token, or `nobody` for a refused sign-in without an account. `nth` numbers the entries of
-- an actor. `details` is JSON. `outcome` is `ok`, or the code of the error.
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  actor_name TEXT,
  key_id TEXT,
  via TEXT NOT NULL,
  address TEXT NOT NULL,
  operation TEXT NOT NULL,
  app_id TEXT,
  app_slug TEXT,
  details TEXT NOT NULL,
  outcome TEXT NOT NULL,
  nth INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_actor ON audit (actor, nth);
CREATE INDEX audit_app ON audit (app_id, seq);
CREATE INDEX audit_age ON audit (at);
