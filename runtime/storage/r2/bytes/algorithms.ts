// Digest algorithms for an object's bytes.

/** The supported digests, by their names in answers. */
export const ALGORITHMS = ['md5', 'sha1', 'sha256', 'sha384', 'sha512'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];
export type Digests = Partial<Record<Algorithm, Buffer>>;
