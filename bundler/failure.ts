/** A fault of the project itself. The message is for its author: it names the file or setting and the fix. */
export class BuildFailure extends Error {
  override name = 'BuildFailure';
}
