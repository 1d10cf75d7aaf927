// A module of its own, so that the bundle has no more of the package than this.
export { sqlite } from '@codemirror/legacy-modes/mode/sql';
