/** An app's way to its buckets. */
export interface BucketAccess {
  /** Path of the socket at which the bucket service answers this app alone. */
  socket: string;
  /** Resolves when the service listens there, or after a while when it does not. Never rejects. */
  open: () => Promise<void>;
}
