// Types of the implementations of operations.
import type * as z from 'zod';
import type { Context } from '../context.ts';
import type { Named, OperationName } from '../contract/index.ts';

/** Output of an operation with `replaces`, when the record existed before. REST then answers 200. */
export class Replaced<Output> {
  readonly output: Output;
  constructor(output: Output) {
    this.output = output;
  }
}

/** The transport of a call. Only operations of the kinds `stream` and `bytes` differ between transports. */
export type Transport = 'rest' | 'rpc';

type Input<Name extends OperationName> = z.output<Named<Name>['input']>;
type Output<Name extends OperationName> = z.input<Named<Name>['output']>;
type Answer<Name extends OperationName> =
  Named<Name> extends { replaces: true } ? Output<Name> | Replaced<Output<Name>> : Output<Name>;

/**
 * Implements the named operation: maps the validated input to the output. The output of a stream is its bytes. In REST, the
 * output of an operation of kind `bytes` is the response.
 */
export type Service<Name extends OperationName> =
  Named<Name> extends { kind: 'stream' }
    ? (context: Context, input: Input<Name>, transport: Transport) => Promise<ReadableStream<Uint8Array>>
    : Named<Name> extends { kind: 'bytes' }
      ? (context: Context, input: Input<Name>, transport: Transport) => Promise<Answer<Name> | Response>
      : (context: Context, input: Input<Name>) => Promise<Answer<Name>>;
