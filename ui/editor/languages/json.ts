// A module of its own, so that the bundle has no more of the package than this.
export { jsonLanguage } from '@codemirror/lang-json';
