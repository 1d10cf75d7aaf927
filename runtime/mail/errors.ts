// Errors of the mail service, with Cloudflare's codes: `send()` rejects with an Error that has the `code`. Apps check it.
import { CodedError } from '../../handlers/contract/coded-error.ts';

/** An error whose message and code the app gets. */
export class MailError extends CodedError<string> {}

const refusal = (status: number, code: string) => (message: string) => new MailError(status, code, message);
export const invalid = refusal(400, 'E_VALIDATION_ERROR');
export const missing = (field: string) => new MailError(400, 'E_FIELD_MISSING', `"${field}" is missing.`);
export const tooManyRecipients = refusal(400, 'E_TOO_MANY_RECIPIENTS');
export const senderNotVerified = refusal(403, 'E_SENDER_NOT_VERIFIED');
export const recipientNotAllowed = refusal(403, 'E_RECIPIENT_NOT_ALLOWED');
export const tooLarge = refusal(413, 'E_CONTENT_TOO_LARGE');
export const headerNotAllowed = refusal(400, 'E_HEADER_NOT_ALLOWED');
export const headerUseField = refusal(400, 'E_HEADER_USE_API_FIELD');
export const headerInvalid = refusal(400, 'E_HEADER_VALUE_INVALID');
export const headersTooMany = refusal(400, 'E_HEADERS_TOO_MANY');
export const headersTooLarge = refusal(400, 'E_HEADERS_TOO_LARGE');
export const rateExceeded = refusal(429, 'E_RATE_LIMIT_EXCEEDED');
export const dailyExceeded = refusal(429, 'E_DAILY_LIMIT_EXCEEDED');
/** The mail server failed, or could not be reached. */
export const failedDelivery = refusal(502, 'E_DELIVERY_FAILED');
export const internal = refusal(500, 'E_INTERNAL_SERVER_ERROR');
export const notSet = () =>
  new MailError(
    503,
    'E_INTERNAL_SERVER_ERROR',
    'This Cellar has no mail server. Its operator names one with RUNNER_SMTP_URL and RUNNER_SMTP_FROM.',
  );

export function refusalBody({ code, message }: MailError): string {
  return JSON.stringify({ code, message });
}
