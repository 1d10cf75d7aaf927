// A separate module, so that the bundle contains only this part of the package.
export { cssLanguage } from '@codemirror/lang-css';
