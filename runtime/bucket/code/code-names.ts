// Names of an app's code in the bucket, below `apps/<id>/`.
import type { S3Place } from '../place.ts';

/** The parts of an app's folder that hold its code. */
export type CodePart = 'repository' | 'releases';

/** The object with the refs, below `repository/`. */
export const REFS = 'refs.json';
/** The folder of packs, which have the refs' objects, below `repository/`. */
export const PACKS = 'packs/';
/** Suffix of a release's object, whose name begins with the id of the deploy. */
export const ARCHIVE = '.tar.gz';

/** Returns the place of a part of an app's code in the bucket. */
export function codePlace(place: S3Place, appId: string, part: CodePart): S3Place {
  return { ...place, prefix: `${place.prefix}apps/${appId}/${part}/` };
}

/** Returns the name of a pack's object, below `repository/`. */
export function packObject(name: string): string {
  return `${PACKS}${name}.pack`;
}
