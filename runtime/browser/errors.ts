// Errors of the browser service. Puppeteer and Playwright show the status and the text.

/** An error whose message is sent to the app. */
export class BrowserError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export const invalid = (message: string) => new BrowserError(400, message);
export const notFound = (message: string) => new BrowserError(404, message);
export const tooMany = (message: string) => new BrowserError(429, message);
/** For a browser that failed or has ended, and for a service that has none free. */
export const failed = (message: string) => new BrowserError(503, message);
export const notSet = () =>
  failed(
    'This Cellar has no browser. Its operator names one with RUNNER_BROWSER, such as /usr/bin/chromium, or with RUNNER_BROWSER_URL.',
  );
