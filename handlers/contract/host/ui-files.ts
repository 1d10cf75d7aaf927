// The host's list of the control UI's files, for the UI's server.

/** Precompressed encodings, the best first, with their file extensions. */
export const ENCODINGS = { br: '.br', gzip: '.gz' } as const;
export type Encoding = keyof typeof ENCODINGS;

export interface UiFile {
  /** Its media type. */
  type: string;
  /** Identifies the content, quoted as in the HTTP header. */
  etag: string;
  /** Whether its name changes with its content. */
  immutable: boolean;
  /** Encodings that exist precompressed. */
  encodings: Encoding[];
}

/** By path, such as `/assets/main-AB12.js`. */
export type UiFiles = Record<string, UiFile>;

/** The single-page app, served at every path that is not a file. */
export const PAGE = '/index.html';
