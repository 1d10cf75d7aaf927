// Messages between the host and a service for apps.

/** The family and account that an app's usage counts for. */
export interface CountsFor {
  /** Id of the app itself, or of the app that it is a preview of. */
  family: string;
  /** Id of that app's account. */
  owner: string;
}

/**
 * Starts or stops serving an app, or only sets `isHeld`. The app's socket is sent with a message that starts to serve it.
 */
export interface AppServiceRequest extends CountsFor {
  id: number;
  app: string;
  isOpen: boolean;
  /** Whether the app's files are being copied. */
  isHeld: boolean;
  /** What `AppServiceOptions.about` returns for this app; null in a message that does not start to serve it. */
  about: unknown;
}

export interface AppServiceReply {
  id: number;
  error: string | null;
}
