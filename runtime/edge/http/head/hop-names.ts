// The names of the headers between hosts. Nobody else may set them.

/** Proves that a request comes from a host of this Cellar. */
export const HOP_KEY = 'x-cellar-hosts-key';
/** The purpose of the request: see `Hopping`. */
export const HOP_TO = 'x-cellar-to';
/** The id of the app; of a preview's app. */
export const HOP_APP = 'x-cellar-app';
/** The generation of the app in the route by which it was sent here. */
export const HOP_GENERATION = 'x-cellar-generation';
/** The span that called the one of the request, which goes on at this host; missing when the trace begins there. */
export const HOP_PARENT = 'x-cellar-parent';
/** How many hosts have passed the request on. */
export const HOP_COUNT = 'x-cellar-hops';
/** How deep a call between apps is in its chain. */
export const HOP_DEPTH = 'x-cellar-depth';
/** The listening socket of the app's process, other than the default one. */
export const HOP_SOCKET = 'x-cellar-socket';

/** Of an answer: the host closes, and no process has seen the request. */
export const HOP_AGAIN = 'x-cellar-again';
/** Of a ping and its answer: the digest of the queues that the asked host's apps consume. */
export const KNOWN_QUEUES = 'x-cellar-queues';
/** How many hosts have passed a HOST call on, for the server of such calls. */
export const PASSED = 'x-cellar-passed';

/** All of them. */
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
