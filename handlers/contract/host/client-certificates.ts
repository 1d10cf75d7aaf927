// Types of the calls to the host about the client certificates of accounts.

/** An uploaded certificate with its new id. */
export interface NewCertificate {
  id: string;
  /** The certificate and its chain, in PEM. */
  certificates: string;
  /** The private key in PEM format. */
  private_key: string;
}

/** An uploaded certificate as the host has parsed it. */
export interface ReadCertificate {
  /** The uploaded certificates in the same order, without other text. */
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

/** The parts of a certificate that a release needs. */
export interface SealedCertificate {
  certificates: string;
  sealed_key: string;
}
