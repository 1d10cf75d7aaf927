// Refusals as S3's errors in XML.

/** Codes of S3 for refusals, with their HTTP statuses. */
const STATUSES = {
  AccessDenied: 403,
  EntityTooLarge: 400,
  InvalidAccessKeyId: 403,
  InvalidRequest: 400,
  MethodNotAllowed: 405,
  MissingContentLength: 411,
  RequestTimeTooSkewed: 403,
  SignatureDoesNotMatch: 403,
  SlowDown: 503,
} as const;

export class Refused extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: keyof typeof STATUSES, message: string) {
    super(message);
    this.code = code;
    this.status = STATUSES[code];
  }
}

/** Returns the body of an error in S3's format. */
export function errorXml(code: string, message: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${escaped(code)}</Code><Message>${escaped(message)}</Message></Error>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
