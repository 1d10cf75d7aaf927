// Header names between workerd and the bucket service. All but the first are workerd's own.

/** The bucket's storage id. workerd writes it, from the configuration of the app's process. */
export const BUCKET_HEADER = 'x-cellar-bucket';
/** In a GET: the request as JSON. */
export const REQUEST_HEADER = 'cf-r2-request';
/** Length of the JSON at the start of a body: a PUT's request, or an answer's metadata. */
export const METADATA_SIZE_HEADER = 'cf-r2-metadata-size';
/** In an answer: the error as JSON. */
export const ERROR_HEADER = 'cf-r2-error';
