// Creates a view's model.
import { useLayoutEffect, useMemo } from 'preact/hooks';

/**
 * Creates a model when its view mounts, and closes it on unmount. A screen is mounted anew when its path parameters change,
 * so a model always belongs to the same parameters.
 */
export function useModel<Model extends { close(): void }>(make: () => Model): Model {
  const model = useMade(make);
  // A layout effect also runs for a view that unmounts before paint. Otherwise the streams of its model would stay open.
  useLayoutEffect(() => () => model.close(), [model]);
  return model;
}

/** Like `useModel`, for a model without `close`. */
export function useMade<Model>(make: () => Model): Model {
  return useMemo(make, []);
}
