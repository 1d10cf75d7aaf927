// Images that an app's `fetch()` transforms by `cf.image`. Only apps whose code may set `cf.image` have this module.
import { type CellModule, textOf } from '../texts.ts';

/** Replaces `fetch()` in the app's process. */
export const FETCHED_IMAGES: CellModule = {
  name: 'cellar-fetched-images.js',
  text: textOf('./fetched-images/fetched-images-worker.js'),
};
/** The binding to the images service. The module removes it before the app's code runs. No app can choose this name. */
export const FETCHED_IMAGES_BINDING = 'cellar images';

/** The words `cf` and `image`, as the name of a property or of a variable with its value. */
const NAMES = /(?<![\w$-])(cf|image)["']?\]?\s*[:,}=.?)[]/g;
/** Most characters between `cf` and `image`. */
const NEAR = 1_000;

/** Whether a module may set `cf.image`: both words are near each other. */
export function mayFetchImages(text: string): boolean {
  let last = { name: '', at: 0 };
  for (const { 1: name = '', index: at } of text.matchAll(NAMES)) {
    if (last.name !== '' && name !== last.name && at - last.at <= NEAR) return true;
    last = { name, at };
  }
  return false;
}
