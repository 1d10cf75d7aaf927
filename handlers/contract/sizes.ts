// How large things may be, for both planes: what the contract takes at its door, every layer behind it takes too. Bytes
// are those of UTF-8.

/** A request's body, where an operation states no other size. */
export const BODY_BYTES = 1024 * 1024;
/** The body of a commit through the API. */
export const COMMIT_BODY_BYTES = 25 * 1024 * 1024;
/** What a call over JSON-RPC has around its params: `jsonrpc`, `id`, `method`, and the names that REST has in the path. */
export const RPC_ENVELOPE_BYTES = 4096;
/** A commit on its way to the host: its contents and up to 1,000 paths with what is to be done there. */
export const HOST_COMMIT_BYTES = 32 * 1024 * 1024;

/** One variable's value. */
export const ENV_VALUE_BYTES = 16 * 1024;
/** All variables of an app, names and values. A process takes 2 MiB at most, arguments included. */
export const ENV_BYTES = 256 * 1024;
/** A command of the settings of builds. */
export const BUILD_COMMAND_BYTES = 4 * 1024;

/** One secret's value, as on Cloudflare. */
export const SECRET_VALUE_BYTES = 5 * 1024;
/** Most secrets of one app. All of them together fit into the environment of a process. */
export const SECRETS_LIMIT = 100;
/** An app's whole wanted state as JSON, also with variables that were set before all of them together had a limit. */
export const WANTED_BYTES = 16 * 1024 * 1024;
/** Any other call of the control plane to the host. */
export const HOST_CALL_BYTES = 4 * 1024 * 1024;

/** A database as SQL, in the JSON of an answer or a body. What is exported can be imported. */
export const D1_SQL_BYTES = 10 * 1024 * 1024;
/** Queries on their way to the host: JSON may write a number longer than its sender did. */
export const D1_QUERY_BYTES = 2 * D1_SQL_BYTES;

/** The body of a call that puts an object as `content_base64`. */
export const R2_BODY_BYTES = 16 * 1024 * 1024;
/** An object that is put as a body of its own: as R2 has it, 5 GiB less 5 MiB. */
export const R2_OBJECT_BYTES = 5 * 2 ** 30 - 5 * 2 ** 20;
/** One part of an upload in parts. */
export const R2_PART_BYTES = 128 * 1024 * 1024;
/** Parts of one upload through the API. */
export const R2_PARTS = 1_000;
/** An object up to this size comes with what is known of it. */
export const R2_INLINE_BYTES = 1024 * 1024;
/** Bytes of an object that one RPC answer has. */
export const R2_RPC_BYTES = 16 * 1024 * 1024;

/** A batch of the host's facts: no fact is added after this many bytes. */
export const FACTS_BYTES = 4 * 1024 * 1024;
/** Facts of one batch. */
export const FACTS_LIMIT = 100;
/** A delivery of facts as it is taken: a batch, and one fact that is larger than a batch. */
export const HOST_EVENTS_BYTES = 16 * 1024 * 1024;

/** All that is known of one user, as JSON. */
export const PROPERTIES_BYTES = 64 * 1024;
/** The tags of one event, as JSON. */
export const TAGS_BYTES = 16 * 1024;

/** Events kept of each app: older ones make room. */
export const EVENTS_LIMIT = 50_000;
/** Users kept of each app: those that were identified longest ago make room. */
export const USERS_LIMIT = 10_000;
/** Insights kept of each app: those that were set longest ago make room. */
export const INSIGHTS_LIMIT = 1_000;
/** Deploys kept of each app, besides those that are unfinished, serve, or can be gone back to. */
export const DEPLOYS_LIMIT = 200;

/** Longest cursor, in characters: the place in a list may be a key of 2 KiB, and base64 makes four characters of three bytes. */
export const CURSOR_LENGTH = 3072;

/** An answer that an agent is given, in characters: what it can read at once. */
export const AGENT_ANSWER_CHARACTERS = 24_000;
