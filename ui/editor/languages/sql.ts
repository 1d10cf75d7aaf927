// A separate module, so that the bundle contains only this part of the package.
export { sqlite } from '@codemirror/legacy-modes/mode/sql';
