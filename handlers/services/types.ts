// The shape of an operation's implementation.
import type * as z from 'zod';
import type { Context } from '../context.ts';
import type { Named, OperationName } from '../contract/index.ts';

/** Implements the named operation: its checked input in, its output out. */
export type Service<Name extends OperationName> = (
  context: Context,
  input: z.output<Named<Name>['input']>,
) => Promise<z.input<Named<Name>['output']>>;
