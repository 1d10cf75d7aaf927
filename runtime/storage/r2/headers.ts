// Names of the headers between workerd and the bucket service. All but the first are workerd's own.

/** Names the bucket: written by workerd from the cell's configuration. */
export const BUCKET_HEADER = 'x-cellar-bucket';
/** Of a GET: what is asked for, as JSON. */
export const REQUEST_HEADER = 'cf-r2-request';
/** How many bytes of a body, at its beginning, are JSON: of a PUT what is asked for, of an answer what is known. */
export const METADATA_SIZE_HEADER = 'cf-r2-metadata-size';
/** Of an answer: what went wrong, as JSON. */
export const ERROR_HEADER = 'cf-r2-error';
