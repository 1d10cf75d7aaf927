/** Headers of a response with untrusted content of an app or its owner: a browser must not run it at the API's origin. */
export const UNTRUSTED = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  'cache-control': 'private, no-cache',
};
