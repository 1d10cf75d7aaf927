// Loads the syntax of a language when the first file in it is opened.
import { type Language, StreamLanguage } from '@codemirror/language';

const javascript = () => import('./javascript.ts');
const byEnding: Record<string, () => Promise<Language>> = {
  js: async () => (await javascript()).jsxLanguage,
  jsx: async () => (await javascript()).jsxLanguage,
  mjs: async () => (await javascript()).javascriptLanguage,
  cjs: async () => (await javascript()).javascriptLanguage,
  ts: async () => (await javascript()).typescriptLanguage,
  mts: async () => (await javascript()).typescriptLanguage,
  cts: async () => (await javascript()).typescriptLanguage,
  tsx: async () => (await javascript()).tsxLanguage,
  json: async () => (await import('./json.ts')).jsonLanguage,
  jsonc: async () => StreamLanguage.define((await import('./jsonc.ts')).json),
  html: async () => (await import('./html.ts')).htmlLanguage,
  svg: async () => (await import('./html.ts')).htmlLanguage,
  vue: async () => (await import('./html.ts')).htmlLanguage,
  svelte: async () => (await import('./html.ts')).htmlLanguage,
  css: async () => (await import('./css.ts')).cssLanguage,
  toml: async () => StreamLanguage.define((await import('@codemirror/legacy-modes/mode/toml')).toml),
  sql: async () => StreamLanguage.define((await import('./sql.ts')).sqlite),
};

/** Returns the language of a file by its extension; null for plain text. */
export async function languageOf(path: string): Promise<Language | null> {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  return Object.hasOwn(byEnding, ending) ? await byEnding[ending]!() : null;
}
