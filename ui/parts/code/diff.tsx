// Shows the differences between two commits, or of uncommitted changes, by file.
import type { ComponentChildren } from 'preact';
import type { Result } from '../../api.ts';
import { type DiffLine, type FilePatch, parseDiff } from '../../models/source/diff.ts';
import { href } from '../../router.ts';
import { plural } from '../format.ts';
import { Empty } from '../status/states.tsx';

type Diff = Result<'source.diff'>;

/** Files with more changed lines are collapsed at first. */
const OPEN_LINES = 300;
const SIGNS = { same: ' ', added: '+', removed: '−', hunk: '' };

/** Returns false for the header of a file's first hunk if it has no text. */
function isShown({ kind, text }: DiffLine, i: number): boolean {
  return kind !== 'hunk' || i > 0 || text !== '';
}

/** The number of changed files and lines. */
export function DiffSum({ files }: Pick<Diff, 'files'>) {
  const sum = (name: 'additions' | 'deletions') => files.reduce((all, file) => all + (file[name] ?? 0), 0);
  return (
    <span>
      {plural(files.length, 'file')} <Counts additions={sum('additions')} deletions={sum('deletions')} />
    </span>
  );
}

function Counts({ additions, deletions }: { additions: number | null; deletions: number | null }) {
  if (additions === null || deletions === null) return <span class="muted small">binary</span>;
  return (
    <span class="diff-counts small">
      <span class="added">
        <span class="unseen">added </span>+{additions}
      </span>{' '}
      <span class="removed">
        <span class="unseen">removed </span>−{deletions}
      </span>
    </span>
  );
}

/** All changed files, collapsible. */
export function DiffView({ diff, app }: { diff: Diff; app: string }) {
  if (diff.files.length === 0) return <Empty title="Nothing differs" />;
  const patches = new Map(parseDiff(diff.diff).map((patch) => [patch.path, patch]));
  return (
    <div class="stack">
      {diff.files.map(({ path, from_path, ...file }) => (
        <FileDiff key={path} {...file} path={path} from={from_path} patch={patches.get(path)}>
          {file.status !== 'deleted' && (
            <a class="small diff-open" href={href({ name: 'source', app, path }, { ref: diff.to })}>
              Open the file
            </a>
          )}
        </FileDiff>
      ))}
      {diff.truncated && <p class="muted">Only a part of the changes is shown here.</p>}
    </div>
  );
}

export function FileDiff({
  path,
  from = null,
  status,
  additions,
  deletions,
  patch,
  children,
}: {
  path: string;
  /** The previous path of a renamed file. */
  from?: string | null;
  status: string;
  /** Number of added lines; null for a binary file. */
  additions: number | null;
  /** Number of removed lines; null for a binary file. */
  deletions: number | null;
  patch: Omit<FilePatch, 'path'> | undefined;
  children?: ComponentChildren;
}) {
  return (
    <details class="panel diff" open={(additions ?? 0) + (deletions ?? 0) <= OPEN_LINES}>
      <summary>
        <span class="mono grow cut">
          {from !== null && <span class="muted">{from} → </span>}
          {path}
        </span>
        <span class="muted small">{status}</span>
        <Counts additions={additions} deletions={deletions} />
      </summary>
      {children}
      {patch === undefined || patch.isBinary || patch.lines.length === 0 ? (
        <p class="muted small diff-note">{patch?.isBinary ? 'A binary file' : 'No lines to show'}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too
        <div class="diff-lines" tabIndex={0}>
          <table>
            <tbody>
              {patch.lines.filter(isShown).map(({ kind, before, after, text }, i) => (
                <tr key={i} class={kind}>
                  <td class="number">{before}</td>
                  <td class="number">{after}</td>
                  <td class="text">
                    <span aria-hidden="true">{SIGNS[kind]}</span>
                    {kind === 'hunk' ? `⋯ ${text}` : text}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {patch.isCut && <p class="muted small diff-note">The rest of the file is not shown here.</p>}
        </div>
      )}
    </details>
  );
}
