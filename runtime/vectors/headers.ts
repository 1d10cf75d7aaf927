// Headers of calls of the vectors service.

/** Names the index by its storage id. workerd writes it, not the Worker. */
export const INDEX_HEADER = 'cellar-vectors';
