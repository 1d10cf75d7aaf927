// The control UI. How to add a screen:
//   1. `ui/router.ts`: add its path. The path's parameters (`:app`) become the props of the screen, decoded.
//   2. `ui/screens/index.ts`: add its module, title and place. Without this the UI does not compile.
//   3. `ui/models/<domain>.ts`: a function that returns a model of signals: `resource(…)` for data that is read,
//      `live(…)` for streams; `close()` ends them. No JSX and no DOM here: `node --test` runs it (test/ui/unit).
//   4. `ui/screens/<section>/<screen>.tsx`: `export default function`. It creates its model with `useModel(() => …)`,
//      begins with `<Head>`, and shows data with `<Loaded of={…}>`. Filter, range and selection are in the query (`queryOf`,
//      `setQuery`).
//   5. Components are in `ui/parts`, formats of numbers and times in `ui/parts/format.ts`, styles in `ui/style` by concern.
//      Use the custom properties of tokens.css. `style={{…}}` needs units (`'4px'`); HTML must not have `style` attributes.
//   6. Sections of the sidebar, and their letter after `g`: `ui/layout/sections.ts`.
// `ui/screens/overview/apps.tsx` with `ui/models/apps.ts` is a complete example.
import { render } from 'preact';
import { App, loadAhead } from './layout/app.tsx';
import { followRole } from './role.ts';
import { startRouter } from './router.ts';
import { loadSession, watchSession } from './session.ts';
import { watchTyping } from './unsaved.ts';

startRouter();
watchTyping();
const session = loadSession();
// `App` shows the failure.
session.catch(() => {});
loadAhead();
followRole();
watchSession();
render(<App session={session} />, document.getElementById('page')!);
