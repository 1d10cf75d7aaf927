// The names of the headers between hosts. In requests from clients and from apps, the gateway drops them.

/** Proves that a request comes from a host of this Cellar. */
export const HOP_KEY = 'x-cellar-hosts-key';
/** The purpose of the request: see `Hopping` in `hosts-headers.ts`. */
export const HOP_TO = 'x-cellar-to';
/** The id of the app. For a preview, the id of its parent app. */
export const HOP_APP = 'x-cellar-app';
/** The app's generation, as the sending host knows it: a number that each change of the app's wanted state raises. */
export const HOP_GENERATION = 'x-cellar-generation';
/** The parent of the request's span; missing when the span has no parent. Both hosts use the same span for the request. */
export const HOP_PARENT = 'x-cellar-parent';
/** How many hosts have passed the request on. */
export const HOP_COUNT = 'x-cellar-hops';
/** The depth of a call in a chain of calls between apps. */
export const HOP_DEPTH = 'x-cellar-depth';
/** The name of the listening socket of the app's process; missing for the default one. */
export const HOP_SOCKET = 'x-cellar-socket';

/** In a response: the host shuts down, and no process has seen the request. */
export const HOP_AGAIN = 'x-cellar-again';
/** The digest of the list of queues that the asked host's apps consume. In a ping: of the list that the asking host has. */
export const KNOWN_QUEUES = 'x-cellar-queues';
/** How many hosts have passed on a call of the control plane's `HOST` binding, for the server of such calls. */
export const PASSED = 'x-cellar-passed';

/** All names that a request may have. */
export const HOP_NAMES = [
  HOP_KEY,
  HOP_TO,
  HOP_APP,
  HOP_GENERATION,
  HOP_PARENT,
  HOP_COUNT,
  HOP_SOCKET,
  HOP_DEPTH,
  KNOWN_QUEUES,
  PASSED,
];
