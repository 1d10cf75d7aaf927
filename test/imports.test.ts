// Which folder may import which. No file imports itself through others, and folders stay small.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const TREES = ['bundler', 'cli', 'client', 'handlers', 'runtime', 'sqlite', 'ui'];

const FILES_IN_A_FOLDER = 15;

interface Import {
  from: string;
  /** A path of this repository, or the name of a package. */
  to: string;
  isType: boolean;
}

const files = globSync(TREES.map((tree) => `${tree}/**/*.{ts,tsx,js}`)).sort();
const imports = files.flatMap(importsOf);

function importsOf(from: string): Import[] {
  const source = readFileSync(from, 'utf8');
  const statements = source.matchAll(/^(?:import|export)\s+(type\s)?[^'";]*?from\s+'([^']+)'/gm);
  const bare = source.matchAll(/(?<![./'])\bimport\(?\s*()'([^']+)'/g);
  return [...statements, ...bare].map(([statement, type, name]) => ({
    from,
    to: name!.startsWith('.') ? join(dirname(from), name!) : name!,
    isType: type !== undefined || onlyTypes(statement),
  }));
}

/** Whether each name in the braces has a keyword `type` of its own. */
function onlyTypes(statement: string): boolean {
  const names =
    /\{([^}]*)\}/
      .exec(statement)?.[1]
      ?.split(',')
      .filter((name) => name.trim() !== '') ?? [];
  return names.length > 0 && names.every((name) => name.trim().startsWith('type '));
}

/** Fails with every import of a file below `from` that the rule does not allow. */
function rule(text: string, from: string, allows: (found: Import) => boolean): void {
  test(text, () => {
    const own = imports.filter((found) => found.from.startsWith(from));
    assert.ok(own.length > 0, `nothing below ${from} imports anything: has it moved?`);
    const broken = own.filter((found) => !allows(found)).map((found) => `${found.from} → ${found.to}`);
    assert.deepEqual(broken, []);
  });
}

const isOurs = ({ to }: Import) => TREES.some((tree) => to.startsWith(`${tree}/`));
const isContract = ({ to }: Import) => to.startsWith('handlers/contract/');

rule(
  'the contract imports zod and itself',
  'handlers/contract/',
  (found) => found.to === 'zod' || isContract(found),
);
rule(
  'the handlers know nothing of the host',
  'handlers/',
  ({ to }) => !to.startsWith('runtime/') && !to.startsWith('bundler/'),
);
rule(
  'sqlite takes only types of the contract',
  'sqlite/',
  (found) => !isOurs(found) || found.to.startsWith('sqlite/') || (isContract(found) && found.isType),
);
rule(
  'the bundler takes only types of the contract',
  'bundler/',
  (found) => !isOurs(found) || found.to.startsWith('bundler/') || (isContract(found) && found.isType),
);
rule(
  'the client knows only the contract',
  'client/',
  (found) => !isOurs(found) || found.to.startsWith('client/') || isContract(found),
);
rule(
  'the command line knows the client and the contract',
  'cli/',
  (found) => !isOurs(found) || /^cli(ent)?\//.test(found.to) || isContract(found),
);
rule(
  'of the handlers the host knows only the contract',
  'runtime/',
  (found) => !found.to.startsWith('handlers/') || isContract(found),
);
rule(
  'the control UI knows only the contract',
  'ui/',
  (found) =>
    (!isOurs(found) && !found.to.startsWith('node:')) || found.to.startsWith('ui/') || isContract(found),
);
rule('nothing knows the control UI', '', ({ from, to }) => from.startsWith('ui/') || !to.startsWith('ui/'));
rule('telemetry knows no fleets', 'runtime/telemetry/', ({ to }) => !to.startsWith('runtime/fleets/'));
rule('the edge knows no fleets', 'runtime/edge/', ({ to }) => !to.startsWith('runtime/fleets/'));

test('HTML is escaped in one place', () => {
  // The page Worker runs in the app's workerd, which cannot import the bundler's file.
  const places = ['bundler/escape-html.ts', 'runtime/fleets/config/workers/page-worker.js'];
  const escaping = files.filter((file) => readFileSync(file, 'utf8').includes('`&#${'));
  assert.deepEqual(escaping, places);
});

test('a folder has so few files that its list can be read', () => {
  const folders = Map.groupBy(files, (file) => dirname(file));
  const full = [...folders].filter(([, own]) => own.length > FILES_IN_A_FOLDER);
  assert.deepEqual(
    full.map(([folder, own]) => `${folder} has ${own.length} files`),
    [],
  );
});

test('there are no circles, not of types either', () => {
  const next = Map.groupBy(imports, ({ from }) => from);
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, path: string[]): void => {
    if (path.includes(file)) {
      circles.push([...path.slice(path.indexOf(file)), file].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  assert.deepEqual(circles, []);
});
