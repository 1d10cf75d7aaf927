// Messages between the browser service and the host, which starts browsers: the service may not make sandboxes.

/** Starts or ends the browser of a session. */
export interface BrowserRequest {
  /** Number of the session. */
  browser: number;
  wanted: boolean;
}

/** Says that the browser of a session has ended, or could not start. */
export interface BrowserEnd {
  browser: number;
  /** Why, in words for the app. */
  ended: string;
}

export interface BrowserServiceOptions {
  /** Directory of the sockets of sessions. */
  sockets: string;
  /** Private addresses and CIDR ranges that apps may reach. */
  egress: readonly string[];
  /** The endpoint of the operator's browsers; empty: browsers run on this machine. */
  url: string;
}

/** Path of the socket that connects the browser of a session with the service. */
export function sessionSocket(sockets: string, browser: number): string {
  return `${sockets}/${browser}`;
}
