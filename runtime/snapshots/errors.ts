// Why a snapshot is not used.

/** There is no such snapshot, or not what was asked for in it. */
export class NotThere extends Error {}

/** A snapshot that is damaged, of another Cellar, or of a newer one. */
export class Unusable extends Error {}

/** What was stored is not what comes back. */
export class Damaged extends Unusable {}
