// Places in a bundled module, as workerd names them, turned into places in the project's own files.
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { basename, join } from 'node:path';

const PLACE = /(?:file:\/\/\/bundle\/)?([\w.-]+\.js):(\d+):(\d+)/g;

/**
 * Replaces each `index.js:4:11` in a message by the file, line and column that it was bundled from. A place without a
 * source map, or that the map does not know, stays as it is.
 * @param directory the release's, with the maps beside its modules
 */
export function toSourcePlaces(directory: string, message: string): string {
  return message.replaceAll(PLACE, (place, name: string, line: string, column: string) => {
    const origin = readMap(directory, name)?.findOrigin(Number(line), Number(column));
    return origin && 'fileName' in origin
      ? `${origin.fileName}:${origin.lineNumber}:${origin.columnNumber}`
      : place;
  });
}

function readMap(directory: string, module: string): SourceMap | null {
  try {
    const text = readFileSync(join(directory, 'modules', `${basename(module)}.map`), 'utf8');
    return new SourceMap(JSON.parse(text));
  } catch {
    return null;
  }
}
