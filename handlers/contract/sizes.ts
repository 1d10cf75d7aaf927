// Size limits of the control plane and the host. The host accepts everything that the contract accepts. Limits in bytes
// measure text as UTF-8.

/** Default limit of a request's body. */
export const BODY_BYTES = 1024 * 1024;
/** The body of a commit through the API. */
export const COMMIT_BODY_BYTES = 25 * 1024 * 1024;
/** The body of a delivery of a Git host's webhook: GitHub's maximum. */
export const WEBHOOK_BYTES = 25 * 1024 * 1024;
/** Bytes of a JSON-RPC call around its params: `jsonrpc`, `id`, `method`, and the parameters that REST has in the path. */
export const RPC_ENVELOPE_BYTES = 4096;
/** The body of a call that sends a commit to the host: the contents, and up to 1,000 paths with their changes. */
export const HOST_COMMIT_BYTES = 32 * 1024 * 1024;

/** The list of the files of a folder that is deployed. */
export const FOLDER_MANIFEST_BYTES = 8 * 1024 * 1024;
/** Contents of a folder's files in base64: one file of 25 MiB, or several small files. */
export const FOLDER_BODY_BYTES = 36 * 1024 * 1024;

/** The value of one build variable. */
export const ENV_VALUE_BYTES = 16 * 1024;
/** The names and values of all build variables of an app. Linux gives a process at most 2 MiB, arguments included. */
export const ENV_BYTES = 256 * 1024;
/** A command in the build settings. */
export const BUILD_COMMAND_BYTES = 4 * 1024;

/** The HTML of a maintenance page. */
export const MAINTENANCE_HTML_BYTES = 64 * 1024;

/** One secret's value, as on Cloudflare. */
export const SECRET_VALUE_BYTES = 5 * 1024;
/** Maximum secrets of one app. All of them together fit into the environment of a process. */
export const SECRETS_LIMIT = 100;
/** The JSON of one override of a variable of the Worker: Cloudflare's limit for variables. */
export const VAR_VALUE_BYTES = 5 * 1024;
/** Maximum overrides of variables of one app. The overrides for its previews have a limit of the same size. */
export const VARS_LIMIT = 100;
/** An app's whole wanted state as JSON. Leaves room for variables that were set before `ENV_BYTES` was enforced. */
export const WANTED_BYTES = 16 * 1024 * 1024;
/** The body of any other call of the control plane to the host. */
export const HOST_CALL_BYTES = 4 * 1024 * 1024;

/** A database as SQL, in JSON. The same limit for export and import, so that every export can be imported. */
export const D1_SQL_BYTES = 10 * 1024 * 1024;
/** SQL queries in a call to the host. Twice the limit of the API, because JSON may write a number with more digits than given. */
export const D1_QUERY_BYTES = 2 * D1_SQL_BYTES;

/** A value of KV, as on Cloudflare. */
export const KV_VALUE_BYTES = 25 * 1024 * 1024;
/** The metadata of a value of KV as JSON, as on Cloudflare. */
export const KV_METADATA_BYTES = 1024;

/** The body of a call that puts an object as `content_base64`. */
export const R2_BODY_BYTES = 16 * 1024 * 1024;
/** An object as a raw body: the limit of R2, 5 GiB minus 5 MiB. */
export const R2_OBJECT_BYTES = 5 * 2 ** 30 - 5 * 2 ** 20;
/** One part of a multipart upload. */
export const R2_PART_BYTES = 128 * 1024 * 1024;
/** Maximum parts of one multipart upload through the API. */
export const R2_PARTS = 1_000;
/** Objects up to this size are returned together with their metadata. */
export const R2_INLINE_BYTES = 1024 * 1024;
/** Bytes of an object in one RPC answer. */
export const R2_RPC_BYTES = 16 * 1024 * 1024;

/** A batch of the host's facts (changes of apps and deploys) is full after this many bytes. */
export const FACTS_BYTES = 4 * 1024 * 1024;
/** Maximum facts of one batch. */
export const FACTS_LIMIT = 100;
/** Limit of a delivery of facts: a batch, plus one fact that is larger than a batch. */
export const HOST_EVENTS_BYTES = 16 * 1024 * 1024;

/** All properties of one user, as JSON. */
export const PROPERTIES_BYTES = 64 * 1024;
/** The tags of one event, as JSON. */
export const TAGS_BYTES = 16 * 1024;

/** Events kept of each app: the oldest are dropped. */
export const EVENTS_LIMIT = 50_000;
/** Users kept of each app: those with the oldest identification are dropped. */
export const USERS_LIMIT = 10_000;
/** Insights kept of each app: those set longest ago are dropped. */
export const INSIGHTS_LIMIT = 1_000;
/** Deploys kept of each app, besides those that are unfinished, live, or available for rollback. */
export const DEPLOYS_LIMIT = 200;

/**
 * Longest cursor in characters. A position in a list may be a key of 2 KiB, and base64 turns three bytes into four
 * characters.
 */
export const CURSOR_LENGTH = 3072;

/** Longest answer for an agent in characters, to fit its context. */
export const AGENT_ANSWER_CHARACTERS = 24_000;
