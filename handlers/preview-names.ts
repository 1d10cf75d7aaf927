// Limits certificates of previews. Certificate authorities issue only a few certificates per week for one domain, and all apps
// share that domain. A person can push any number of branches.

/** Maximum previews of an app, by name, that may request a certificate within `WINDOW_MS`. */
export const PREVIEW_NAMES = 20;
const WINDOW_MS = 7 * 24 * 3_600_000;

/** The names of previews that requested certificates. Kept in memory, so the list is empty after the control plane restarts. */
export class PreviewNames {
  /** By app: the names that may have a certificate, and the time of their first request. */
  readonly #names = new Map<string, Map<string, number>>();

  /** Whether a preview may have a certificate now. Counts its name. @param now in ms since 1970 */
  may(appId: string, name: string, now: number): boolean {
    const names = this.#names.get(appId) ?? new Map<string, number>();
    this.#names.set(appId, names);
    for (const [each, since] of names) if (now - since >= WINDOW_MS) names.delete(each);
    if (names.has(name)) return true;
    if (names.size >= PREVIEW_NAMES) return false;
    names.set(name, now);
    return true;
  }
}
