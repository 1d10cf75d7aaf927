// A text with links to its source locations.
import { findPlaces } from '../../models/places.ts';
import { href } from '../../router.ts';

/** @param props.gitRef the commit whose source the links open; default: main */
export function Places({ text, app, gitRef }: { text: string; app: string; gitRef?: string | undefined }) {
  return (
    <>
      {findPlaces(text).map(({ text, path, line }, i) =>
        path === undefined ? (
          text
        ) : (
          <a key={i} href={href({ name: 'source', app, path }, { line, ref: gitRef })}>
            {text}
          </a>
        ),
      )}
    </>
  );
}
