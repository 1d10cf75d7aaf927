// Messages between the host and a service for apps.

/** The family and account that an app's usage counts for. */
export interface CountsFor {
  /** Id of the app itself, or of the app that it is a preview of. */
  family: string;
  /** Id of that app's account. */
  owner: string;
}

/** Starts or stops serving an app. The app's socket is sent with the message, unless the program has it already. */
export interface AppServiceRequest extends CountsFor {
  id: number;
  app: string;
  isOpen: boolean;
  /** Whether the app's files are being copied. */
  isHeld: boolean;
  /** What `AppServiceOptions.about` returns for this app. */
  about: unknown;
}

export interface AppServiceReply {
  id: number;
  error: string | null;
}
