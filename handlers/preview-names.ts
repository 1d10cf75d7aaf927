// Which names of previews may have certificates. Authorities issue few in a week for one domain, which all apps share, and
// whoever pushes branches makes as many names as they like.

/** Names of an app in so long, in ms. */
export const PREVIEW_NAMES = 20;
const FOR_MS = 7 * 24 * 3_600_000;

/** It begins anew with the control plane. */
export class PreviewNames {
  /** By app: the names that may have one, and when they were first asked for. */
  readonly #names = new Map<string, Map<string, number>>();

  /** Whether a preview's name is among those of its app that may have a certificate now. @param now in ms since 1970 */
  may(appId: string, name: string, now: number): boolean {
    const names = this.#names.get(appId) ?? new Map<string, number>();
    this.#names.set(appId, names);
    for (const [each, since] of names) if (now - since >= FOR_MS) names.delete(each);
    if (names.has(name)) return true;
    if (names.size >= PREVIEW_NAMES) return false;
    names.set(name, now);
    return true;
  }
}
