// Digest algorithms for an object's bytes.

/** The supported digests. Node, requests of the binding and `ObjectRow.checksums` use the same names. */
export const ALGORITHMS = ['md5', 'sha1', 'sha256', 'sha384', 'sha512'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];
export type Digests = Partial<Record<Algorithm, Buffer>>;
