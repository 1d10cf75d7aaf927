CREATE TABLE choices (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL,
  votes INTEGER NOT NULL DEFAULT 0
);
INSERT INTO choices (text) VALUES ('Tea'), ('Coffee'), ('Water');
