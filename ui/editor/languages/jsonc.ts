// A separate module, so that the bundle contains only this part of the package.
export { json } from '@codemirror/legacy-modes/mode/javascript';
