// A separate module, so that the bundle contains only this part of the package.
export { htmlLanguage } from '@codemirror/lang-html';
