// How a view gets its model.
import { useLayoutEffect, useMemo } from 'preact/hooks';

/**
 * Makes a model when its view appears, and closes it when the view goes. A screen is made anew when what its path catches
 * changes, so a model never changes what it is about.
 */
export function useModel<Model extends { close(): void }>(make: () => Model): Model {
  const model = useMade(make);
  // A view that goes before it is painted never runs its other effects, and its streams would stay open.
  useLayoutEffect(() => () => model.close(), [model]);
  return model;
}

/** The same for a model that has nothing to end. */
export function useMade<Model>(make: () => Model): Model {
  return useMemo(make, []);
}
