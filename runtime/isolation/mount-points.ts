// Where file systems are mounted.
import { readFileSync } from 'node:fs';

/** The paths at which this process finds something mounted, outer ones before those inside them. See proc(5). */
export function mountPoints(): string[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  return [...new Set(lines.map((line) => unescaped(line.split(' ')[4]!)))];
}

/** Spaces, tabs, line feeds and backslashes are octal numbers there. */
function unescaped(path: string): string {
  return path.replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
}
