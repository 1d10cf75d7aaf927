// Stacks that apps' releases print, with the places in the project's own files. What was looked up once is known by heart.
import { join } from 'node:path';
import { type SourcePlace, toSources } from './source-places.ts';
import { placesIn, type SourceStack, withSources } from './stack.ts';

/** Places that are known by heart. */
const PLACES = 5_000;

export class SourceStacks {
  readonly #releases: string;
  readonly #places = new Map<string, SourcePlace | null>();

  /** @param releases the directory that has those of each app */
  constructor(releases: string) {
    this.#releases = releases;
  }

  /** A text with stacks in it, with their places in the sources. Places that cannot be looked up in time stay as they are. */
  async find(appId: string, release: string | null, text: string): Promise<SourceStack> {
    const unknown = this.#unknown(release, text);
    if (release !== null && unknown.length > 0) {
      const find = () => toSources(join(this.#releases, appId, release), unknown);
      // A machine under load may make the thread late once. What could not be found is not known by heart.
      const found = await find()
        .catch(find)
        .catch(() => []);
      for (const [index, source] of found.entries())
        this.#places.set(keyOf(release, unknown[index]!), source);
    }
    const stack = this.known(release, text);
    for (const old of this.#places.keys()) {
      if (this.#places.size <= PLACES) break;
      this.#places.delete(old);
    }
    return stack;
  }

  /** Whether nothing has to be looked up for a text. */
  isKnown(release: string | null, text: string): boolean {
    return this.#unknown(release, text).length === 0;
  }

  /** As `find`, with what is known by heart. */
  known(release: string | null, text: string): SourceStack {
    const places = placesIn(text);
    return withSources(
      text,
      new Map(places.map((place) => [place, this.#places.get(keyOf(release, place)) ?? null])),
    );
  }

  #unknown(release: string | null, text: string): string[] {
    return placesIn(text).filter((place) => !this.#places.has(keyOf(release, place)));
  }
}

function keyOf(release: string | null, place: string): string {
  return `${release} ${place}`;
}
