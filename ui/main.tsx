// The control UI. How to add a screen:
//   1. `ui/router.ts`: give it a path. What the path catches (`:app`) is what the screen is called with, decoded.
//   2. `ui/screens/index.ts`: say what loads it, its title and its place. Without this it does not compile.
//   3. `ui/models/<domain>.ts`: a function that makes its model of signals: `resource(…)` for what is read, `live(…)` for
//      what streams; `close()` ends them. No JSX and no DOM in there: `node --test` runs it (test/ui/unit).
//   4. `ui/screens/<screen>.tsx`: `export default function`. It takes its model with `useModel(() => …)`, begins with
//      `<Head>`, shows it with `<Loaded of={…}>`, and reads filter, range and selection from the query (`queryOf`, `setQuery`).
//   5. Parts are in `ui/parts`, words for numbers and times in `ui/parts/format.ts`, styles in `ui/style` by concern, with
//      the roles of tokens.css. `style={{…}}` needs units (`'4px'`); an attribute in HTML is not allowed.
//   6. Sections at the left, and their letter after `g`: `ui/layout/sections.ts`.
// `ui/screens/overview/apps.tsx` with `ui/models/apps.ts` is an example of all that.
import { render } from 'preact';
import { App, loadAhead } from './layout/app.tsx';
import { followRole } from './role.ts';
import { startRouter } from './router.ts';
import { loadSession } from './session.ts';
import { watchTyping } from './unsaved.ts';

startRouter();
watchTyping();
const session = loadSession();
// The page says what fails, once it is there.
session.catch(() => {});
loadAhead();
followRole();
render(<App session={session} />, document.getElementById('page')!);
