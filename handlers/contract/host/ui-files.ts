// How the host tells the control UI's server of the files that it serves to browsers.

/** Encodings in which files lie beside themselves, the best first, with what their names end in. */
export const ENCODINGS = { br: '.br', gzip: '.gz' } as const;
export type Encoding = keyof typeof ENCODINGS;

export interface UiFile {
  /** Its media type. */
  type: string;
  /** Tells one content from another, quoted as HTTP wants it. */
  etag: string;
  /** Whether its name changes with its content. */
  immutable: boolean;
  /** Encodings in which it lies there too. */
  encodings: Encoding[];
}

/** By path, such as `/assets/main-AB12.js`. */
export type UiFiles = Record<string, UiFile>;

/** The app's page, which answers at every path that is no file. */
export const PAGE = '/index.html';
