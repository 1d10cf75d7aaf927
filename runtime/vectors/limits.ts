// Limits of vector indexes. Most of them are Cloudflare's: https://developers.cloudflare.com/vectorize/platform/limits/

export const DIMENSIONS = 1_536;
export const ID_BYTES = 64;
export const NAMESPACE_BYTES = 64;
export const METADATA_BYTES = 10 * 1024;
/** Maximum vectors of an index. */
export const VECTORS = 10_000_000;
/** Maximum vectors of an insert, and ids of a deletion. */
export const BATCH = 5_000;
/** Maximum ids of a call that returns vectors by id. */
export const IDS = 20;
/** Maximum results of a query. */
export const RESULTS = 100;
/** Maximum results of a query that returns values or all metadata. */
export const WHOLE_RESULTS = 50;
/** Results of a query that gives no number. */
export const USUAL_RESULTS = 5;
export const FILTER_BYTES = 2_048;
/** Maximum indexed properties of an index's metadata. Filters may name only indexed ones. */
export const PROPERTIES = 10;
/** Bytes of a text that are indexed; the rest is ignored. */
export const INDEXED_BYTES = 64;
/** Maximum ids on a page of `list`. */
export const PAGE = 1_000;
/** Ids on a page of `list` when the call gives no number. */
export const USUAL_PAGE = 100;
