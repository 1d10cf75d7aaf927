// Images that an app's `fetch()` transforms by `cf.image`. Only apps whose code may set `cf.image` have this module.
import { type CellModule, textOf } from '../texts.ts';

/** The module that replaces `fetch()` in the app's Worker. */
export const FETCHED_IMAGES: CellModule = {
  name: 'cellar-fetched-images.js',
  text: textOf('./fetched-images/fetched-images-worker.js'),
};
/** The binding to the images service. The module removes it before the app's code runs. No app can choose this name. */
export const FETCHED_IMAGES_BINDING = 'cellar images';

/** The words `cf` and `image`, where they can be the name of a property, or of a variable that gets its value. */
const NAMES = /(?<![\w$-])(cf|image)["']?\]?\s*[:,}=.?)[]/g;
/** Maximum distance between `cf` and `image`, in characters. */
const NEAR = 1_000;

/** Whether a module may set `cf.image`: the two words are near each other. */
export function mayFetchImages(text: string): boolean {
  let last = { name: '', at: 0 };
  for (const { 1: name = '', index: at } of text.matchAll(NAMES)) {
    if (last.name !== '' && name !== last.name && at - last.at <= NEAR) return true;
    last = { name, at };
  }
  return false;
}
