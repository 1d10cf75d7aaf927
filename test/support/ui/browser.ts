// A real Chromium for tests of the control UI, and people who use it: each with a window and cookies of their own.
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
/** What a page is waited for, at most. */
const DEADLINE_MS = 60_000;
/** What a page may take to draw itself for another size of its window, on a machine that others use too. */
const FOLLOWS_MS = 5_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Options of a test that needs Chromium: where it is missing, the test is skipped with the reason. */
export const NEEDS_CHROMIUM: { skip?: string } =
  PROGRAM === undefined || spawnSync(PROGRAM, ['--version']).status !== 0
    ? { skip: 'Chromium is not installed: apt-get install chromium' }
    : {};

/** One finding of axe that keeps somebody from using a page. */
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

  /** Starts Chromium. Its home is a temporary directory, and it finds no host but those below `localhost`. */
  static async start(): Promise<UiBrowser> {
    const directory = mkdtempSync(join(tmpdir(), 'cellar-chromium-'));
    const browser = await chromium.launch({
      executablePath: PROGRAM!,
      // Root has no sandbox, and an ordinary user of a container may have none. It sees nothing but our own pages.
      args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost'],
      env: { HOME: directory, TMPDIR: directory, PATH: process.env.PATH ?? '', LANG: 'C.UTF-8' },
      timeout: DEADLINE_MS,
    });
    return new UiBrowser(browser, directory);
  }

  /** Somebody with a new window. `origin` is where the control UI is. */
  async person(origin: string, options: BrowserContextOptions = {}): Promise<Person> {
    const context = await this.#browser.newContext({
      baseURL: origin,
      viewport: { width: 1280, height: 800 },
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(DEADLINE_MS);
    const person = new Person(await context.newPage());
    this.#people.push(person);
    return person;
  }

  /** Asserts that nobody has seen an error in the console so far. */
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
  /** What the console said that is an error: exceptions, broken policies, files that are missing. */
  readonly errors: string[] = [];
  #expected: RegExp[] = [];

  constructor(page: Page) {
    this.page = page;
    const heard = (text: string) => {
      if (!this.#expected.some((pattern) => pattern.test(text))) this.errors.push(text);
    };
    page.on('pageerror', (error) => heard(`${page.url()}: ${error.stack ?? error}`));
    page.on('console', (message) => {
      if (message.type() === 'error') heard(`${message.location().url}: ${message.text()}`);
    });
  }

  /** From now on these errors are part of what is tested: a server that is away, a call that is refused. */
  expect(...patterns: RegExp[]): void {
    this.#expected.push(...patterns);
  }

  /** The findings of axe on what is shown now that are serious or worse. */
  async findings(): Promise<Finding[]> {
    if (!(await this.evaluate<boolean>("'axe' in window"))) await this.evaluate(AXE);
    const violations = await this.evaluate<{ id: string; impact: string; nodes: { target: string[] }[] }[]>(
      'axe.run().then(({ violations }) => violations)',
    );
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, impact, nodes }) => ({ rule: id, impact, where: nodes.flatMap(({ target }) => target) }));
  }

  /** What makes the page scroll sideways for longer than a chart takes to follow its window: the innermost elements that stick out. */
  sticksOut(): Promise<string[]> {
    return this.evaluate(`(async () => {
      const page = document.documentElement;
      const end = performance.now() + ${FOLLOWS_MS};
      while (page.scrollWidth > page.clientWidth && performance.now() < end) await new Promise(requestAnimationFrame);
      const { scrollWidth, clientWidth } = page;
      if (scrollWidth <= clientWidth) return [];
      const out = [...document.querySelectorAll('body *')].filter((each) => each.getBoundingClientRect().right > clientWidth);
      const inner = out.filter((each) => !out.some((other) => other !== each && each.contains(other)));
      return ['the page is ' + scrollWidth + ' px wide', ...inner.slice(0, 5).map((each) => each.outerHTML.slice(0, 200))];
    })()`);
  }

  /** The value of an expression in the page, once it is there. The page's policy allows no script of others: the debugger's is let through. */
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
