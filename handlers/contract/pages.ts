// What every page of Cellar's own is sent with, whichever plane makes it.

/** Headers of a small page that brings its own style, and needs nothing else. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'x-content-type-options': 'nosniff',
};
