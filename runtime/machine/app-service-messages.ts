// What the host and the program of a service for apps say to each other.

/** Has the program serve an app at the socket that comes along, or no more. */
export interface AppServiceRequest {
  id: number;
  app: string;
  /** The app that it counts for: itself, or the one that it is a preview of. */
  family: string;
  isOpen: boolean;
}

export interface AppServiceReply {
  id: number;
  error: string | null;
}
