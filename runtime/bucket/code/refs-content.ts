// The content of `refs.json`. Its names become paths and input of git, so they are checked.
import { reason } from '../../log.ts';

/** Object ids of refs, by the refs' full names. */
export type Refs = Record<string, string>;

/** The branches and tags of a repository in the bucket, and where their objects are. */
export interface RefsContent {
  refs: Refs;
  /** Names of packs, without `.pack`. */
  packs: string[];
}

const FORMAT = 1;
/**
 * Refuses line breaks: each would begin another command of git's update-ref. A stricter rule than git's would make a
 * repository unreadable, so it allows every character beyond ASCII.
 */
const REF = /^refs\/[!-~\u{80}-\u{10ffff}]+$/u;
const SHA = /^([0-9a-f]{40}|[0-9a-f]{64})$/;
const PACK = /^pack-[0-9a-f]{40,64}$/;

/** Whether `refs.json` may have a ref of this name. */
export function isRefName(ref: string): boolean {
  return REF.test(ref);
}

export function refsJson({ refs, packs }: RefsContent): Buffer<ArrayBuffer> {
  return Buffer.from(JSON.stringify({ format: FORMAT, refs, packs }));
}

/** Parses `refs.json`. @param name of the object, for messages @throws {Error} when it is damaged, or of a newer Cellar */
export function readRefsJson(bytes: Buffer, name: string): RefsContent {
  try {
    const { format, refs, packs } = JSON.parse(bytes.toString('utf8'));
    if (format !== FORMAT) throw new Error(`its format is ${format}, and this Cellar knows ${FORMAT}`);
    for (const [ref, sha] of Object.entries(refs))
      if (!isRefName(ref) || typeof sha !== 'string' || !SHA.test(sha))
        throw new Error(`${JSON.stringify(ref.slice(0, 200))} is not a branch or tag with a commit`);
    for (const pack of packs)
      if (typeof pack !== 'string' || !PACK.test(pack))
        throw new Error(`${JSON.stringify(String(pack).slice(0, 200))} is not the name of a pack`);
    return { refs, packs };
  } catch (error) {
    throw new Error(
      `${name} cannot be used: ${reason(error)}. If this machine has the repository, remove that object, and Cellar writes it again`,
    );
  }
}
