// Maps the stacks that releases print to places in the project's own files, with a cache.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type SourcePlace, toSources } from './source-places.ts';
import { placesIn, type SourceStack, withSources } from './stack.ts';

/** Maximum cached places. */
const PLACES = 5_000;

export class SourceStacks {
  readonly #releases: string;
  readonly #versions: string;
  readonly #places = new Map<string, SourcePlace | null>();

  /**
   * @param releases the directory with the releases of each app
   * @param versions the directory with uploaded versions, which serve before they are releases of their app
   */
  constructor(releases: string, versions = releases) {
    this.#releases = releases;
    this.#versions = versions;
  }

  /** Returns a text with its stacks mapped to the sources. Places not found in time stay unchanged. */
  async find(appId: string, release: string | null, text: string): Promise<SourceStack> {
    const unknown = this.#unknown(release, text);
    if (release !== null && unknown.length > 0) {
      const own = join(this.#releases, appId, release);
      const directory = existsSync(own) ? own : join(this.#versions, release);
      const find = () => toSources(directory, unknown);
      // Tries twice, because the first attempt may be late on a loaded machine. Failures are not cached.
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

  /** Whether all places of a text are cached. */
  isKnown(release: string | null, text: string): boolean {
    return this.#unknown(release, text).length === 0;
  }

  /** Like `find`, but uses only cached places. */
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
