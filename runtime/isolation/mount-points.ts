// The mounted file systems.
import { readFileSync } from 'node:fs';

/** Returns the mount points of this process, outer ones before those inside them. See proc(5). */
export function mountPoints(): string[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  return [...new Set(lines.map((line) => unescaped(line.split(' ')[4]!)))];
}

/** Decodes spaces, tabs, line feeds and backslashes, which are octal escapes in `mountinfo`. */
function unescaped(path: string): string {
  return path.replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
}
