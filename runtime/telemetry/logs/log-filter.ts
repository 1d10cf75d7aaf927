// Filters Cellar's own lines in an app's log: `RUNNER_FLEET_LOG`, such as `error,celld=warn`.
import { LEVELS, type Level, type Source } from './log-lines.ts';

/** Maps the target in a filter to the source of lines in the log. */
const TARGETS: Record<string, Source> = { celld: 'supervisor', workerd: 'workerd', build: 'build' };

/** The lowest level of each source that passes. The app's own lines always pass. */
export class LogFilter {
  readonly #least: Record<Source, number>;

  private constructor(least: Record<Source, number>) {
    this.#least = least;
  }

  /**
   * Parses a filter: `target=level` for single targets, separated by commas. A level without a target is for all other
   * targets; its default is `error`.
   * @throws {Error} naming the invalid part
   */
  static parse(text: string): LogFilter {
    let rest: number | null = null;
    const own = new Map<Source, number>();
    for (const directive of text.split(',').map((part) => part.trim())) {
      const [word, level, ...more] = directive.split('=').map((part) => part.trim());
      if (directive === '' || more.length > 0)
        throw new Error(`${JSON.stringify(directive)} is neither a level nor target=level`);
      if (level === undefined) {
        if (rest !== null) throw new Error('it has two levels without a target');
        rest = leastOf(word!);
        continue;
      }
      const source = Object.hasOwn(TARGETS, word!) ? TARGETS[word!]! : null;
      if (source === null)
        throw new Error(`there is no target ${word}; the targets are ${Object.keys(TARGETS).join(', ')}`);
      if (own.has(source)) throw new Error(`it has two levels for ${word}`);
      own.set(source, leastOf(level));
    }
    const all = rest ?? LEVELS.indexOf('error');
    const least = { app: 0, supervisor: all, workerd: all, build: all };
    return new LogFilter({ ...least, ...Object.fromEntries(own) });
  }

  passes(source: Source, level: Level): boolean {
    return LEVELS.indexOf(level) >= this.#least[source];
  }
}

/** Returns a level as a number; `off` is above all levels. */
function leastOf(word: string): number {
  const level = word.toLowerCase();
  if (level === 'off') return LEVELS.length;
  if (level === 'trace') return 0;
  const index = (LEVELS as readonly string[]).indexOf(level);
  if (index !== -1) return index;
  throw new Error(`${word} is not a level; the levels are off, error, warn, info, debug and trace`);
}
