// The status of an HTTP response.
import { Badge } from './status.tsx';

/** An HTTP status code as a badge, coloured by its class. */
export function HttpStatus({ of }: { of: number }) {
  return <Badge look={of >= 500 ? 'danger' : of >= 400 ? 'warn' : undefined}>{String(of)}</Badge>;
}
