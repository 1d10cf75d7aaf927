// A real Chromium for tests of the control UI, and its users: each has a separate window and cookies.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const PROGRAM = (process.env.PATH ?? '')
  .split(':')
  .map((directory) => join(directory, 'chromium'))
  .find((path) => existsSync(path));
/** Longest wait for a page, in ms. */
const DEADLINE_MS = 60_000;
/** Longest time for a page to adapt to a new window size on a busy machine, in ms. */
const RESIZE_MS = 5_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Options of a test that needs Chromium. They skip it with the reason where Chromium is missing. */
export const NEEDS_CHROMIUM: { skip?: string } =
  PROGRAM === undefined || spawnSync(PROGRAM, ['--version']).status !== 0
    ? { skip: 'Chromium is not installed: apt-get install chromium' }
    : {};

/** A serious or critical finding of axe. */
export interface Finding {
  rule: string;
  impact: string;
  where: string[];
}

export class UiBrowser implements AsyncDisposable {
  readonly #browser: Browser;
  readonly #directory: string;
  readonly #people: Person[] = [];

  private constructor(browser: Browser, directory: string) {
    this.#browser = browser;
    this.#directory = directory;
  }

  /** Starts Chromium with a temporary home directory. It resolves only names below `localhost`. */
  static async start(): Promise<UiBrowser> {
    const directory = mkdtempSync(join(tmpdir(), 'cellar-chromium-'));
    const browser = await chromium.launch({
      executablePath: PROGRAM!,
      // Chromium's sandbox does not run as root, nor in some containers. It loads only our own pages.
      args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost'],
      env: { HOME: directory, TMPDIR: directory, PATH: process.env.PATH ?? '', LANG: 'C.UTF-8' },
      timeout: DEADLINE_MS,
    });
    return new UiBrowser(browser, directory);
  }

  /** Opens a new window for a person. @param origin that of the control UI */
  async person(origin: string, options: BrowserContextOptions = {}): Promise<Person> {
    const context = await this.#browser.newContext({
      baseURL: origin,
      viewport: { width: 1280, height: 800 },
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(DEADLINE_MS);
    const person = new Person(await context.newPage());
    // A list that arrives between the press and the release of a click moves the button away. Actions wait for lists.
    await person.page.addLocatorHandler(
      person.page.getByRole('status', { name: 'Loading' }).first(),
      async () => {},
    );
    this.#people.push(person);
    return person;
  }

  /** Asserts that no console has shown an unexpected error so far. */
  assertQuiet(): void {
    assert.deepEqual(
      this.#people.flatMap(({ errors }) => errors),
      [],
      'errors in the console',
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

export class Person implements AsyncDisposable {
  readonly page: Page;
  /** Errors in the console: exceptions, policy violations, missing files. */
  readonly errors: string[] = [];
  #expected: RegExp[] = [];

  constructor(page: Page) {
    this.page = page;
    const onError = (text: string) => {
      if (!this.#expected.some((pattern) => pattern.test(text))) this.errors.push(text);
    };
    page.on('pageerror', (error) => onError(`${page.url()}: ${error.stack ?? error}`));
    page.on('console', (message) => {
      if (message.type() === 'error') onError(`${message.location().url}: ${message.text()}`);
    });
  }

  /** Ignores errors that match these patterns from now on: a server that is down, a call that is refused. */
  expect(...patterns: RegExp[]): void {
    this.#expected.push(...patterns);
  }

  /** Returns the serious and critical findings of axe on the current page. */
  async findings(): Promise<Finding[]> {
    if (!(await this.evaluate<boolean>("'axe' in window"))) await this.evaluate(AXE);
    const violations = await this.evaluate<{ id: string; impact: string; nodes: { target: string[] }[] }[]>(
      'axe.run().then(({ violations }) => violations)',
    );
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, impact, nodes }) => ({ rule: id, impact, where: nodes.flatMap(({ target }) => target) }));
  }

  /** Returns the innermost elements that make the page scroll sideways, after at most 5 s for charts to resize. */
  overflowingElements(): Promise<string[]> {
    return this.evaluate(`(async () => {
      const page = document.documentElement;
      const end = performance.now() + ${RESIZE_MS};
      while (page.scrollWidth > page.clientWidth && performance.now() < end) await new Promise(requestAnimationFrame);
      const { scrollWidth, clientWidth } = page;
      if (scrollWidth <= clientWidth) return [];
      const out = [...document.querySelectorAll('body *')].filter((each) => each.getBoundingClientRect().right > clientWidth);
      const inner = out.filter((each) => !out.some((other) => other !== each && each.contains(other)));
      return ['the page is ' + scrollWidth + ' px wide', ...inner.slice(0, 5).map((each) => each.outerHTML.slice(0, 200))];
    })()`);
  }

  /** Evaluates an expression in the page and awaits it. Uses the debugger, because the page's policy blocks added scripts. */
  async evaluate<Value>(expression: string): Promise<Value> {
    const session = await this.page.context().newCDPSession(this.page);
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    await session.detach();
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value as Value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
  }
}
