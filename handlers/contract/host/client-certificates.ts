// What the handlers and the host ask each other about the client certificates of accounts.

/** An upload, with the id that it gets. */
export interface NewCertificate {
  id: string;
  /** The certificate and its chain, in PEM. */
  certificates: string;
  /** In PEM. */
  private_key: string;
}

/** What the host finds in an upload. */
export interface ReadCertificate {
  /** As given, in the same order and without other text. */
  certificates: string;
  /** The encrypted key, in base64. */
  sealed_key: string;
  issuer: string;
  serial_number: string;
  /** The kind of its public key, such as `rsa`. */
  key_type: string;
  /** ISO 8601. */
  expires_on: string;
}

/** Names the certificate that an app binds. */
export interface BoundCertificate {
  /** Id of the account. */
  owner: string;
  app: string;
  certificate: string;
}

/** What a release needs of one. */
export interface SealedCertificate {
  certificates: string;
  sealed_key: string;
}
