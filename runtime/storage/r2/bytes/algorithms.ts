// The digests of an object's bytes.

/** The digests that there may be, by the name that answers use. */
export const ALGORITHMS = ['md5', 'sha1', 'sha256', 'sha384', 'sha512'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];
export type Digests = Partial<Record<Algorithm, Buffer>>;
