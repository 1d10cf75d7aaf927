-- Client certificates of accounts. The host encrypts the keys; only its key can decrypt them.
CREATE TABLE client_certificates (
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  certificates TEXT NOT NULL, -- PEM
  sealed_key TEXT NOT NULL, -- base64
  issuer TEXT NOT NULL,
  serial_number TEXT NOT NULL,
  key_type TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX client_certificates_owner ON client_certificates (owner_id);
-- The apps that have deployed a release with a certificate.
CREATE TABLE client_certificate_apps (
  certificate_id TEXT NOT NULL REFERENCES client_certificates (id) ON DELETE CASCADE,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  PRIMARY KEY (certificate_id, app_id)
) STRICT;
