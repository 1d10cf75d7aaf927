// What takes the output of a process, piece by piece.

/** Where the output of a process goes. */
export interface OutputSink {
  /** Whether so much of others' output waits there that apps which print much must do without. */
  readonly isCrowded: boolean;
  /**
   * Takes a piece of what was printed, cut anywhere. Its memory may be used again afterwards.
   * @param dropped how many ends of lines were in what was dropped before this piece; null when nothing was
   */
  write(pipe: OutputPipe, piece: Buffer, dropped: number | null): void;
  /** There will be no more on a pipe. */
  end(pipe: OutputPipe): void;
}
export type OutputPipe = 'stdout' | 'stderr';
