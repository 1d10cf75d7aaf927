// Schemas that several resources share.
import * as z from 'zod';
import { CURSOR_LENGTH } from './sizes.ts';

/** An id or a name in a request. An ill-formed id is treated as unknown: the response is 404, not 400. */
export const reference = z.string().min(1).max(200);
/** An id that Cellar has made. */
export const id = z.string().regex(/^[0-9a-z]{16}$/);
/** ISO 8601, UTC, with milliseconds. */
export const time = z.iso.datetime({ precision: 3 });

/** A time in a request, with any offset. Converted to UTC with milliseconds, where the year must have four digits. */
export const moment = z.iso
  .datetime({ offset: true })
  .transform((value) => new Date(value).toISOString())
  .refine((value) => /^\d{4}-/.test(value), { error: 'must be in the years 0000 to 9999 of UTC' });

/** A name of a branch, tag or commit that git accepts, and does not take for an option or a pattern. */
export const gitName = z
  .string()
  .min(1)
  .max(200)
  .regex(
    /^(?![-./])(?!.*(?:\.\.|\/\/|@\{|\.lock(?:\/|$)))[^\p{Cc}\s~^:?*[\\]+(?<![./])$/u,
    'must be the name of a branch, a tag or a commit',
  );

/** Input fields that select a page of a list. */
export const page = {
  limit: z.int().min(1).max(200).default(50),
  cursor: z.string().min(1).max(CURSOR_LENGTH).optional(),
};

/** Returns the output schema of a list. `next_cursor` is null on the last page. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return z.strictObject({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** The output of a delete operation: no content in REST, `null` in RPC. */
export const nothing = z.null();

/** Returns the schema of a text: 1 to `max` characters, not blank, without control characters except tab and line feed. */
export function text(max: number) {
  return (
    z
      .string()
      .min(1)
      .max(max)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern refuses them
      .regex(/^[^\u0000-\u0008\u000b-\u001f\u007f]*$/, 'must not have control characters')
      .regex(/\S/, 'must not be blank')
  );
}
