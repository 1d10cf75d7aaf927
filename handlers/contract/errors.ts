// The error codes of the API, the RPC, git and the gateway. Pure values: the host imports them too.

/** Errors that the caller can fix. */
const callerErrors = {
  bad_request: { status: 400, meaning: 'The request is not valid HTTP.' },
  invalid_input: { status: 400, meaning: 'A field is missing, unknown or wrong; `errors` names each.' },
  malformed_json: { status: 400, meaning: 'The body is not JSON; `detail` says where.' },
  unauthorized: { status: 401, meaning: 'The bearer token or API key is missing or wrong.' },
  forbidden: {
    status: 403,
    meaning:
      'The caller lacks the permission: by the role of its account, or by the scope or the app of its API key.',
  },
  quota_exceeded: { status: 403, meaning: 'The request would exceed a quota.' },
  route_not_found: { status: 404, meaning: 'There is no such route.' },
  unknown_host: { status: 404, meaning: 'No app answers at this hostname.' },
  app_not_found: { status: 404, meaning: 'There is no such app.' },
  host_not_found: { status: 404, meaning: 'There is no such host.' },
  deploy_not_found: { status: 404, meaning: 'The app has no such deploy.' },
  account_not_found: { status: 404, meaning: 'There is no such account.' },
  invite_not_found: {
    status: 404,
    meaning: 'There is no such invite: the link is wrong, was used or revoked, or has expired.',
  },
  key_not_found: { status: 404, meaning: 'There is no such API key.' },
  collaborator_not_found: { status: 404, meaning: 'The account is not a collaborator of the app.' },
  env_not_found: { status: 404, meaning: 'The app has no such build variable.' },
  var_not_found: { status: 404, meaning: 'The app has no such override of a variable.' },
  secret_not_found: { status: 404, meaning: 'The app has no such secret.' },
  cron_not_found: { status: 404, meaning: 'The live release of the app has no such cron.' },
  workflow_not_found: { status: 404, meaning: 'The live release of the app binds no such Workflow.' },
  workflow_instance_not_found: { status: 404, meaning: 'The Workflow has no such instance.' },
  domain_not_found: { status: 404, meaning: 'The app has no such domain.' },
  mail_route_not_found: { status: 404, meaning: 'The app has no such e-mail address.' },
  tcp_port_not_found: { status: 404, meaning: 'The app has no such TCP port.' },
  user_not_found: { status: 404, meaning: 'The app has not identified such a user.' },
  source_not_connected: { status: 404, meaning: 'The app is not connected to a repository elsewhere.' },
  pull_request_not_found: {
    status: 404,
    meaning:
      'The connected repository has no open pull request with this number, as far as its webhook has reported.',
  },
  dispatch_not_found: { status: 404, meaning: 'There is no such dispatch namespace.' },
  preview_not_found: { status: 404, meaning: 'The app has no such preview.' },
  alert_not_found: { status: 404, meaning: 'The app has no such alert.' },
  error_not_found: { status: 404, meaning: 'The app has no such grouped error.' },
  storage_not_found: { status: 404, meaning: 'The app has no such database, class, bucket or object.' },
  snapshot_not_found: {
    status: 404,
    meaning: 'There is no such snapshot, or it does not contain the app or the database.',
  },
  query_failed: {
    status: 400,
    meaning: 'SQLite refuses the statement, or the statement writes where only reading is allowed.',
  },
  ref_not_found: { status: 404, meaning: 'The repository has no such branch, tag or commit.' },
  path_not_found: { status: 404, meaning: 'The repository has no such path.' },
  method_not_allowed: { status: 405, meaning: 'The gateway does not forward this HTTP method.' },
  request_timeout: { status: 408, meaning: 'The request did not arrive in time.' },
  slug_taken: { status: 409, meaning: 'Another app has this name.' },
  domain_taken: { status: 409, meaning: 'This hostname is attached already, or reserved.' },
  tcp_port_taken: { status: 409, meaning: 'Another app has this TCP port.' },
  email_taken: { status: 409, meaning: 'Another account has this address.' },
  host_in_use: {
    status: 409,
    meaning: 'The host still has apps. Drain or stop it, and wait until its apps have moved.',
  },
  host_incompatible: {
    status: 409,
    meaning: 'The Cellar versions of two hosts differ by too much. Upgrade the older host.',
  },
  dispatch_in_use: { status: 409, meaning: 'The dispatch namespace still has scripts.' },
  account_in_use: { status: 409, meaning: 'The account still owns apps.' },
  account_protected: { status: 409, meaning: 'The first account cannot be deleted.' },
  insight_not_numeric: {
    status: 409,
    meaning:
      'The insight is a text, to which `$inc` cannot add, or the sum would be too large. Set it to a number.',
  },
  release_unavailable: {
    status: 409,
    meaning: 'The deploy never went live, or its release is no longer kept.',
  },
  split_impossible: {
    status: 409,
    meaning: 'The versions cannot share the requests of the app; `detail` says why.',
  },
  deploy_failed: { status: 422, meaning: 'The deploy did not go live; `detail` says why.' },
  import_failed: {
    status: 422,
    meaning: 'The repository at that address could not be imported; `detail` says why.',
  },
  commit_conflict: { status: 409, meaning: 'The branch main is not at the given parent commit.' },
  app_immovable: {
    status: 409,
    meaning: 'The app has data that cannot be moved to the other place; `detail` says which.',
  },
  dataset_spread: { status: 409, meaning: 'Apps on several hosts have written to this dataset.' },
  transition_conflict: {
    status: 409,
    meaning: 'Another change is in progress or came first. Try again in a moment.',
  },
  stale_generation: { status: 409, meaning: 'The host knows a newer state of the app.' },
  workflow_conflict: {
    status: 409,
    meaning:
      'An instance with this id exists already, or the status of the instance does not allow the change.',
  },
  idempotency_in_progress: {
    status: 409,
    meaning: 'The first request with this Idempotency-Key is still running.',
  },
  body_too_large: { status: 413, meaning: 'The body is larger than allowed.' },
  answer_too_large: { status: 413, meaning: 'The response would exceed the size limit of responses.' },
  file_too_large: {
    status: 413,
    meaning: 'The file exceeds the size limit of responses; read a range of it.',
  },
  unsupported_media_type: { status: 415, meaning: 'The type of the body is not supported here.' },
  range_not_satisfiable: { status: 416, meaning: 'The range begins after the end of the file or object.' },
  expectation_failed: { status: 417, meaning: 'The only expectation understood is 100-continue.' },
  idempotency_mismatch: {
    status: 422,
    meaning: 'This Idempotency-Key was used before with another request.',
  },
  snapshot_unusable: {
    status: 422,
    meaning: 'The snapshot is damaged, encrypted with another key, of another Cellar, or of a newer one.',
  },
  rate_limited: { status: 429, meaning: 'Too many requests; `Retry-After` says when to retry.' },
  headers_too_large: { status: 431, meaning: 'The head of the request is too large.' },
} as const;

/** Errors of this machine or of an app. */
const systemErrors = {
  internal_error: {
    status: 500,
    meaning: 'Unexpected error; the log of Cellar has its reason, with the request id.',
  },
  storage_unreadable: { status: 500, meaning: 'The stored data of the app cannot be read.' },
  query_timeout: { status: 504, meaning: 'The query exceeded its time limit.' },
  unknown_transfer_encoding: { status: 501, meaning: 'The only transfer coding understood is chunked.' },
  newer_schema: {
    status: 500,
    meaning:
      'A newer version of Cellar has used the database, so this version cannot use it. Start the newer version.',
  },
  insufficient_storage: { status: 507, meaning: 'This machine has too little free disk space.' },
  snapshot_failed: {
    status: 502,
    meaning: 'Snapshots could not be written or read; `detail` says why, and at which address.',
  },
  move_failed: {
    status: 502,
    meaning: 'The data of the app could not be copied; the app stays where it was, and `detail` says why.',
  },
  bad_gateway: { status: 502, meaning: 'The app aborted its response.' },
  host_unavailable: { status: 503, meaning: 'The host did not answer in time; try again in some seconds.' },
  app_unavailable: { status: 503, meaning: 'The app is stopped, crashed, or did not start.' },
  unsupported_http_version: { status: 505, meaning: 'Only HTTP/1.0 and HTTP/1.1 are supported.' },
} as const;

/** Error codes by name, each with its HTTP status and its meaning. */
export const errorCodes = { ...callerErrors, ...systemErrors } as const;
export type ErrorCode = keyof typeof errorCodes;

/** An error response (RFC 9457). `errors` names the invalid fields. */
export interface ProblemBody {
  type: 'about:blank';
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  errors?: { path: string; message: string }[];
}
