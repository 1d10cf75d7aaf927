// What the host and the program of a service for apps say to each other.

/** Whom an app counts for. */
export interface CountsFor {
  /** The app itself, or the one that it is a preview of. */
  family: string;
  /** Its account. */
  owner: string;
}

/** Has the program serve an app, at the socket that comes along when it does not yet, or no more. */
export interface AppServiceRequest extends CountsFor {
  id: number;
  app: string;
  isOpen: boolean;
  /** Whether the app's files are being copied. */
  isHeld: boolean;
}

export interface AppServiceReply {
  id: number;
  error: string | null;
}
