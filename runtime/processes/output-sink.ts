// Receives the output of a process in chunks.

export interface OutputSink {
  /** Whether the queue of all apps' output is so full that apps which print much must drop some of theirs. */
  readonly isCrowded: boolean;
  /**
   * Takes a chunk of output, cut at any byte. The caller may reuse its memory afterwards.
   * @param dropped number of newlines in the output dropped before this chunk; null when nothing was dropped
   */
  write(pipe: OutputPipe, piece: Buffer, dropped: number | null): void;
  /** Marks the end of a pipe. */
  end(pipe: OutputPipe): void;
}
export type OutputPipe = 'stdout' | 'stderr';
