// Creates a view's model.
import { useLayoutEffect, useMemo } from 'preact/hooks';

/**
 * Creates a model when its view mounts, and closes it on unmount. A screen is remounted when its path parameters change, so the
 * subject of a model never changes.
 */
export function useModel<Model extends { close(): void }>(make: () => Model): Model {
  const model = useMade(make);
  // A layout effect, because other effects do not run for a view that unmounts before paint. Its streams would stay open.
  useLayoutEffect(() => () => model.close(), [model]);
  return model;
}

/** Like `useModel`, for a model without `close`. */
export function useMade<Model>(make: () => Model): Model {
  return useMemo(make, []);
}
