// The status of an answer of HTTP.
import { Badge } from './status.tsx';

/** A status of HTTP, coloured by its kind, with its number as the word. */
export function HttpStatus({ of }: { of: number }) {
  return <Badge look={of >= 500 ? 'danger' : of >= 400 ? 'warn' : undefined}>{String(of)}</Badge>;
}
