// A separate module, so that the bundle contains only this part of the package.
export { jsonLanguage } from '@codemirror/lang-json';
