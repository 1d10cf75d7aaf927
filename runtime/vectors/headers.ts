// Headers of calls of the vectors service.

/** The storage id of the index. workerd writes this header, not the Worker. */
export const INDEX_HEADER = 'cellar-vectors';
