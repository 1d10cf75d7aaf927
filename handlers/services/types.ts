// Types of an operation's implementation.
import type * as z from 'zod';
import type { Context } from '../context.ts';
import type { Named, OperationName } from '../contract/index.ts';

/** Output of an operation that `replaces`, when the record existed before. */
export class Replaced<Output> {
  readonly output: Output;
  constructor(output: Output) {
    this.output = output;
  }
}

/** The transport of a call. Only streams and bytes differ between them. */
export type Transport = 'rest' | 'rpc';

type Input<Name extends OperationName> = z.output<Named<Name>['input']>;
type Output<Name extends OperationName> = z.input<Named<Name>['output']>;
type Answer<Name extends OperationName> =
  Named<Name> extends { replaces: true } ? Output<Name> | Replaced<Output<Name>> : Output<Name>;

/**
 * Implements the named operation: validated input to output. A stream outputs its bytes. In REST, an operation of kind `bytes`
 * outputs the response.
 */
export type Service<Name extends OperationName> =
  Named<Name> extends { kind: 'stream' }
    ? (context: Context, input: Input<Name>, transport: Transport) => Promise<ReadableStream<Uint8Array>>
    : Named<Name> extends { kind: 'bytes' }
      ? (context: Context, input: Input<Name>, transport: Transport) => Promise<Answer<Name> | Response>
      : (context: Context, input: Input<Name>) => Promise<Answer<Name>>;
