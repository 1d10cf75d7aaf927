-- Tables of better-auth for people who sign in, with the library's names of tables and columns. The control plane decides
-- which people exist, with which name and address: `user` is a copy of its accounts, with their ids.
CREATE TABLE user (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  emailVerified INTEGER NOT NULL,
  image TEXT,
  createdAt TEXT NOT NULL,
  updatedAt TEXT NOT NULL,
  twoFactorEnabled INTEGER
) STRICT;

CREATE TABLE session (
  id TEXT PRIMARY KEY,
  token TEXT NOT NULL UNIQUE,
  userId TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  expiresAt TEXT NOT NULL,
  ipAddress TEXT,
  userAgent TEXT,
  createdAt TEXT NOT NULL,
  updatedAt TEXT NOT NULL
) STRICT;
CREATE INDEX session_user ON session (userId);
CREATE INDEX session_age ON session (expiresAt);

-- Passwords, and the identities of people at sign-in providers.
CREATE TABLE account (
  id TEXT PRIMARY KEY,
  accountId TEXT NOT NULL,
  providerId TEXT NOT NULL,
  userId TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  accessToken TEXT,
  refreshToken TEXT,
  idToken TEXT,
  accessTokenExpiresAt TEXT,
  refreshTokenExpiresAt TEXT,
  scope TEXT,
  password TEXT,
  createdAt TEXT NOT NULL,
  updatedAt TEXT NOT NULL
) STRICT;
CREATE INDEX account_user ON account (userId);

-- Challenges, valid for some minutes each.
CREATE TABLE verification (
  id TEXT PRIMARY KEY,
  identifier TEXT NOT NULL,
  value TEXT NOT NULL,
  expiresAt TEXT NOT NULL,
  createdAt TEXT NOT NULL,
  updatedAt TEXT NOT NULL
) STRICT;
CREATE INDEX verification_identifier ON verification (identifier);
CREATE INDEX verification_age ON verification (expiresAt);

CREATE TABLE twoFactor (
  id TEXT PRIMARY KEY,
  secret TEXT NOT NULL,
  backupCodes TEXT NOT NULL,
  userId TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  verified INTEGER,
  failedVerificationCount INTEGER,
  lockedUntil TEXT
) STRICT;
CREATE INDEX twoFactor_user ON twoFactor (userId);

CREATE TABLE passkey (
  id TEXT PRIMARY KEY,
  name TEXT,
  publicKey TEXT NOT NULL,
  userId TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  credentialID TEXT NOT NULL UNIQUE,
  counter INTEGER NOT NULL,
  deviceType TEXT NOT NULL,
  backedUp INTEGER NOT NULL,
  transports TEXT,
  createdAt TEXT,
  aaguid TEXT
) STRICT;
CREATE INDEX passkey_user ON passkey (userId);

-- The SHA-256 of the secret of each used link: of two concurrent uses of a link only one can set a password.
CREATE TABLE used_links (
  hash TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
