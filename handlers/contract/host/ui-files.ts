// The host's list of the control UI's files, for the UI's server.

/** Precompressed encodings, the best first, with their file extensions. */
export const ENCODINGS = { br: '.br', gzip: '.gz' } as const;
export type Encoding = keyof typeof ENCODINGS;

export interface UiFile {
  /** The media type of the file. */
  type: string;
  /** Identifies the content, quoted as in the HTTP header. */
  etag: string;
  /** Whether the file's name changes with its content, so that browsers may cache the file for a long time. */
  immutable: boolean;
  /** Encodings that exist precompressed. */
  encodings: Encoding[];
}

/** The files by path, such as `/assets/main-AB12.js`. */
export type UiFiles = Record<string, UiFile>;

/** The single-page app, served at every path that is not a file. */
export const PAGE = '/index.html';
