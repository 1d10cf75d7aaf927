// workerd adds a header to each request of a `send_email` binding. The header contains the binding's restrictions. The app
// cannot change it: its value is in the config of the app's process.
import type { Outward } from '../../bundler/release.ts';

/** Restrictions of one `send_email` binding. A missing field does not restrict. */
export type Restrictions = Omit<Extract<Outward, { type: 'send_email' }>, 'type' | 'binding'>;

export const BINDING_HEADER = 'cellar-send-email';

/** Returns the header's value: JSON in base64url, so that addresses may have any character. */
export function bindingHeader(restrictions: Restrictions): string {
  return Buffer.from(JSON.stringify(restrictions)).toString('base64url');
}

/** Parses the header's value. @throws {SyntaxError} for a value that is not from `bindingHeader` */
export function readBindingHeader(value: string): Restrictions {
  return JSON.parse(Buffer.from(value, 'base64url').toString());
}
