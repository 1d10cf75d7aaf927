// The errors of snapshots.

/** The snapshot does not exist, or lacks the requested app or database. */
export class NotThere extends Error {}

/** A snapshot that is damaged, of another Cellar, or of a newer version. */
export class Unusable extends Error {}

/** A snapshot that is encrypted with a key that this Cellar does not have. */
export class Locked extends Unusable {}

/** Stored data is missing, or has the wrong checksum. */
export class Damaged extends Unusable {}

/** The disk has too little space for the files of a snapshot. */
export class NoRoom extends Error {}
