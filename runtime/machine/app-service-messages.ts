// What the host and the program of a service for apps say to each other.

/** Has the program serve an app, at the socket that comes along when it does not yet, or no more. */
export interface AppServiceRequest {
  id: number;
  app: string;
  /** The app that it counts for: itself, or the one that it is a preview of. */
  family: string;
  isOpen: boolean;
  /** Whether the app's files are being copied. */
  isHeld: boolean;
}

export interface AppServiceReply {
  id: number;
  error: string | null;
}
