/** Headers of an answer that is whatever an app's owner or its code wrote: no browser is to run it at the API's address. */
export const UNTRUSTED = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  'cache-control': 'private, no-cache',
};
