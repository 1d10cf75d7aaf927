// Geolocation of addresses, from databases in MaxMind's format. A database is loaded whole, and reloaded when it changes.
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { Reader } from 'mmdb-lib';
import { log, reason } from '../../log.ts';
import { asciiJson } from '../http/body/ascii-json.ts';

/** How often the files are checked for changes, in ms. New versions appear weekly. */
const CHECK_MS = 60_000;
/** Maximum entries of the cache of addresses, and of each cache of database records. An entry has a few hundred bytes. */
const CACHE_MAX = 4_096;
/** Longest string taken from a database, in characters. */
const TEXT_LENGTH = 100;

/** The used fields of a database record, in MaxMind's names; each may be missing. */
interface Place {
  country?: { iso_code?: string; is_in_european_union?: boolean };
  registered_country?: { iso_code?: string };
  continent?: { code?: string };
  city?: { names?: { en?: string } };
  subdivisions?: { iso_code?: string; names?: { en?: string } }[];
  postal?: { code?: string };
  location?: { latitude?: number; longitude?: number; time_zone?: string; metro_code?: number };
  autonomous_system_number?: number;
  autonomous_system_organization?: string;
}

interface File {
  path: string;
  /** Modification time of the loaded version; null before the first load. */
  changedAt: number | null;
  reader: Reader<never> | null;
}

/** Looks up addresses in any number of databases, such as one of cities and one of networks. */
export class Geo {
  readonly #files: File[];
  readonly #known = new Map<string, string>();
  readonly #timer: NodeJS.Timeout | null = null;

  /** Loads nothing yet. @param paths of the databases; their results are merged */
  constructor(paths: readonly string[]) {
    this.#files = paths.map((path) => ({ path, changedAt: null, reader: null }));
    if (paths.length > 0) this.#timer = setInterval(() => void this.look(), CHECK_MS).unref();
  }

  /** Reloads changed files. Never rejects: a failure is logged, and the previous version stays in use. */
  async look(): Promise<void> {
    for (const file of this.#files) {
      try {
        const { mtimeMs } = await stat(file.path);
        if (mtimeMs === file.changedAt) continue;
        const bytes = await readFile(file.path);
        file.changedAt = mtimeMs;
        file.reader = new Reader<never>(bytes, { cache: new BoundedCache<number, never>() as never });
        this.#known.clear();
        log('info', 'a database of RUNNER_GEOIP_DB was read', { path: file.path, bytes: bytes.length });
      } catch (error) {
        // Not by `logRarely`, which would name only the first of several files.
        const about = { path: file.path, error: reason(error) };
        log('warn', 'a database of RUNNER_GEOIP_DB could not be read', about);
      }
    }
  }

  /**
   * Returns the location of an address as fields of `request.cf`: ASCII JSON without braces, such as `"country":"DE"`;
   * '' when it is unknown.
   */
  locate(address: string): string {
    if (this.#files.length === 0) return '';
    const known = this.#known.get(address);
    if (known !== undefined) return known;
    const located = isIP(address) === 0 ? '' : fieldsOf(this.#placeOf(address));
    if (this.#known.size >= CACHE_MAX) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(address, located);
    return located;
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  #placeOf(address: string): Place {
    const place: Place = {};
    for (const { reader } of this.#files) {
      try {
        Object.assign(place, reader?.get(address));
      } catch {
        // A database that is damaged at this record counts as one without the address.
      }
    }
    return place;
  }
}

/** A cache that evicts its oldest entry. */
class BoundedCache<Key, Value> extends Map<Key, Value> {
  override set(key: Key, value: Value): this {
    if (this.size >= CACHE_MAX) this.delete(this.keys().next().value!);
    return super.set(key, value);
  }
}

function fieldsOf(place: Place): string {
  const { country, registered_country, continent, city, subdivisions, postal, location } = place;
  const [region] = Array.isArray(subdivisions) ? subdivisions : [];
  const fields = {
    country: text(country?.iso_code ?? registered_country?.iso_code),
    isEUCountry: country?.is_in_european_union === true ? '1' : undefined,
    continent: text(continent?.code),
    city: text(city?.names?.en),
    region: text(region?.names?.en),
    regionCode: text(region?.iso_code),
    postalCode: text(postal?.code),
    metroCode: text(location?.metro_code),
    latitude: text(location?.latitude),
    longitude: text(location?.longitude),
    timezone: text(location?.time_zone),
    asn: Number.isInteger(place.autonomous_system_number) ? place.autonomous_system_number : undefined,
    asOrganization: text(place.autonomous_system_organization),
  };
  return asciiJson(fields).slice(1, -1);
}

function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? value.slice(0, TEXT_LENGTH).toWellFormed() : undefined;
}
