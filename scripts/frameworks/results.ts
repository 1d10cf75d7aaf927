// Results of the projects, stored in `.cellar/frameworks.json`, so that partial runs add up.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import type { FrameworkProject } from './project.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FILE = join(ROOT, '.cellar/frameworks.json');

export interface Outcome {
  name: string;
  /** Hash of the project's definition. A project with another hash counts as untried. */
  digest: string;
  /** Commit of Cellar, as `commitTried` returns it. */
  commit: string;
  /** The generator with its version, and how it created the project. */
  generated: string;
  lockFile: string;
  /** Duration of generating the project, in ms. */
  generateMs: number;
  /** Duration from the start of `git push` until the deploy has ended, in ms. */
  pushMs: number;
  /** Duration of each step of the deploy, in ms. */
  steps: Record<string, number>;
  /** Why the project failed; null if all answers were right, or if it was refused as expected. */
  fault: string | null;
  isRefused: boolean;
}

/** Returns the commit of Cellar, with `+` when its code has uncommitted changes. */
export function commitTried(): string {
  const git = (...words: string[]) => execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim();
  const isChanged = git('status', '--porcelain', '--', 'bundler', 'runtime', 'handlers', 'sqlite') !== '';
  return git('rev-parse', '--short', 'HEAD') + (isChanged ? '+' : '');
}

export function digestOf(project: FrameworkProject): string {
  const text = inspect(project, { depth: null, maxStringLength: null, maxArrayLength: null });
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** Returns the last outcome of each unchanged project, from any run. */
export function recorded(projects: FrameworkProject[]): Outcome[] {
  const outcomes = new Map(read().map((outcome) => [outcome.name, outcome]));
  return projects.flatMap((project) => {
    const outcome = outcomes.get(project.name);
    return outcome?.digest === digestOf(project) ? [outcome] : [];
  });
}

/** Stores an outcome, and replaces the project's earlier one. */
export function record(outcome: Outcome): void {
  const others = read().filter(({ name }) => name !== outcome.name);
  mkdirSync(dirname(FILE), { recursive: true });
  writeFileSync(`${FILE}.new`, `${JSON.stringify([...others, outcome], null, 1)}\n`);
  renameSync(`${FILE}.new`, FILE);
}

/** Prints the outcomes of `projects`, and their totals. */
export function printTable(projects: FrameworkProject[]): void {
  const outcomes = recorded(projects);
  console.log('\n| Project | Generator | Lock file | Result | Install | Push to live | Commit |');
  console.log('| --- | --- | --- | --- | --- | --- | --- |');
  for (const outcome of outcomes) console.log(`| ${row(outcome).join(' | ')} |`);
  const untried = projects.filter(({ name }) => !outcomes.some((outcome) => outcome.name === name));
  if (untried.length > 0) console.log(`\nNot tried: ${untried.map(({ name }) => name).join('; ')}`);
  const count = (is: (outcome: Outcome) => boolean) => outcomes.filter(is).length;
  const served = count(({ fault, isRefused }) => fault === null && !isRefused);
  const refused = count(({ fault, isRefused }) => fault === null && isRefused);
  console.log(
    `\nOf ${projects.length} projects ${outcomes.length} were tried: ${served} serve as they are, ` +
      `${refused} are refused by name, ${outcomes.length - served - refused} failed.`,
  );
}

function row({ name, generated, lockFile, pushMs, steps, fault, isRefused, commit }: Outcome): string[] {
  const result = fault !== null ? 'FAILED' : isRefused ? 'refused by name' : 'serves';
  return [name, generated, lockFile, result, seconds(steps.install ?? 0), seconds(pushMs), commit];
}

function seconds(ms: number): string {
  return ms === 0 ? '' : `${(ms / 1000).toFixed(1)} s`;
}

function read(): Outcome[] {
  try {
    return JSON.parse(readFileSync(FILE, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
