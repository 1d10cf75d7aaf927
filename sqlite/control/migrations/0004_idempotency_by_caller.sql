-- Stored answers for `Idempotency-Key`, by caller: 'runner' or an account's id. `answer` is null while the request that
-- holds the key runs. Until `expires_at` no other request gets the key.
CREATE TABLE kept_answers (
  caller TEXT NOT NULL,
  key TEXT NOT NULL,
  operation TEXT NOT NULL,
  input_hash TEXT NOT NULL,
  holder TEXT NOT NULL,
  answer TEXT,
  expires_at TEXT NOT NULL,
  PRIMARY KEY (caller, key)
) STRICT;
CREATE INDEX kept_answers_age ON kept_answers (expires_at);
INSERT INTO kept_answers (caller, key, operation, input_hash, holder, answer, expires_at)
  SELECT 'runner', key, operation, input_hash, '', answer, strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+1 day')
  FROM idempotency WHERE answer IS NOT NULL;
DROP TABLE idempotency;
