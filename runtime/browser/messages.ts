// Messages between the browser service and the host. The host starts browsers, because the service may not make sandboxes.

/** Asks the host to start or end the browser of a session. */
export interface BrowserRequest {
  /** Number of the session. */
  browser: number;
  wanted: boolean;
}

/** Reports to the service that the browser of a session has ended, or could not start. */
export interface BrowserEnd {
  browser: number;
  /** Why, in words for the app. */
  ended: string;
}

export interface BrowserServiceOptions {
  /** Directory of the sockets of sessions. */
  sockets: string;
  /** Private addresses and CIDR ranges that apps may connect to. */
  egress: readonly string[];
  /** The endpoint of the operator's browsers; empty: browsers run on this machine. */
  url: string;
}

/** Returns the path of the socket that connects the browser of a session with the service. */
export function sessionSocket(sockets: string, browser: number): string {
  return `${sockets}/${browser}`;
}
