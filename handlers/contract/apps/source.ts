// Reads and changes the repository without git.
import * as z from 'zod';
import { id, page, reference, text } from '../fields.ts';
import { operation } from '../operation.ts';
import { COMMIT_BODY_BYTES } from '../sizes.ts';
import { pathFault } from './path.ts';
import { templates } from './templates.ts';

/** Maximum bytes of a file that are returned when no range is given. */
export const BLOB_BYTES = 256 * 1024;
/** Maximum entries of a tree in one answer. */
const TREE_ENTRIES = 10_000;

const path = z
  .string()
  .min(1)
  .max(4096)
  .refine((value) => !value.includes('\0'), 'must not have a NUL');
const committedPath = z.string().superRefine((value, context) => {
  const fault = pathFault(value);
  if (fault !== null) context.addIssue({ code: 'custom', message: fault });
});
/** A branch, a tag or a commit, with an optional suffix such as `~2`. */
const ref = z
  .string()
  .min(1)
  .max(255)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern refuses them
  .regex(/^(?!-)[^\u0000-\u0020\u007f:?*[\\{]+$/, 'must name a branch, a tag or a commit');
/**
 * The e-mail addresses that browsers accept, such as `root@localhost`. Excludes `.` and `'` at the beginning, which git strips.
 */
const EMAIL =
  /^[\w+-][\w.!#$%&'*+/=?^`{|}~-]*@[a-zA-Z\d](?:[a-zA-Z\d-]{0,61}[a-zA-Z\d])?(?:\.[a-zA-Z\d](?:[a-zA-Z\d-]{0,61}[a-zA-Z\d])?)*$/;
/** URL of a public repository: git gets no user name or password. */
const repositoryUrl = z
  .string()
  .max(2000)
  .refine((text) => {
    const url = URL.parse(text);
    return url?.protocol === 'https:' && url.username === '' && url.password === '' && url.search === '';
  }, 'must be an https address without a user name or password');
const sha = z.string().regex(/^[0-9a-f]{40}$/);

const change = z
  .strictObject({
    path: committedPath,
    content: z.string().optional(),
    content_base64: z.base64().optional(),
    mode: z.enum(['100644', '100755']).optional(),
    delete: z.literal(true).optional(),
    /** A rename: the file's previous path. */
    from: committedPath.optional(),
  })
  .superRefine((file, context) => {
    const { content, content_base64, mode, from } = file;
    const fault = (message: string) => context.addIssue({ code: 'custom', message });
    const others = [content, content_base64, mode, from].filter((given) => given !== undefined);
    if (content !== undefined && content_base64 !== undefined)
      fault('must not have both content and content_base64');
    if (file.delete && others.length > 0)
      fault('must not have content, content_base64, mode or from together with delete');
    if (!file.delete && others.length === 0) fault('needs content, content_base64, mode, delete or from');
  });

const changes = z
  .array(change)
  .min(1)
  .max(1000)
  .superRefine((files, context) => {
    const seen = new Set<string>();
    for (const [n, file] of files.entries()) {
      for (const name of ['path', 'from'] as const) {
        const value = file[name];
        if (value === undefined) continue;
        if (seen.has(value))
          context.addIssue({
            code: 'custom',
            message: 'names a file that another change names too',
            path: [n, name],
          });
        seen.add(value);
      }
    }
  });

export const source = [
  operation({
    name: 'source.tree',
    summary: 'Lists the files of a directory, at the tip of main or at another commit',
    method: 'GET',
    path: '/v1/apps/:id/tree',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      ref: ref.optional(),
      path: path.optional(),
      /** Lists all files below the directory, without directories. */
      recursive: z.boolean().default(false),
      limit: z.int().min(1).max(TREE_ENTRIES).default(1000),
      cursor: page.cursor,
    }),
    output: z.strictObject({
      /** The commit; null before the first push. */
      sha: sha.nullable(),
      items: z.array(
        z.strictObject({
          path: z.string(),
          /** `commit`: a submodule. */
          type: z.enum(['blob', 'tree', 'commit']),
          mode: z.string(),
          /** Bytes; null for entries that are not files. */
          size: z.int().nullable(),
          sha,
        }),
      ),
      next_cursor: z.string().nullable(),
    }),
    errors: ['ref_not_found', 'path_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'source.blob',
    summary: 'Reads the contents of a file; a file over 256 KiB is read in ranges',
    method: 'GET',
    path: '/v1/apps/:id/blob/:path+',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      path,
      ref: ref.optional(),
      /** A byte range as in the HTTP header `Range`, such as `bytes=0-99`. */
      range: z.string().max(100).optional(),
    }),
    output: z.strictObject({
      path: z.string(),
      /** The commit that the file was read from. */
      commit: sha,
      /** The blob's hash. */
      sha,
      mode: z.string(),
      /** Bytes of the whole file. */
      size: z.int(),
      content_type: z.string(),
      /** Byte offset of the content in the file. */
      offset: z.int(),
      content_base64: z.string(),
    }),
    kind: 'bytes',
    errors: [
      'ref_not_found',
      'path_not_found',
      'file_too_large',
      'range_not_satisfiable',
      'host_unavailable',
    ],
  }),
  operation({
    name: 'source.diff',
    summary: 'Compares main with the live deploy, or two commits',
    method: 'GET',
    path: '/v1/apps/:id/diff',
    needs: 'view',
    input: z.strictObject({ id: reference, from: ref.optional(), to: ref.optional() }),
    output: z.strictObject({
      /** `from` and `to` are null when no deploy is live, or the branch main does not exist. */
      from: sha.nullable(),
      to: sha.nullable(),
      files: z.array(
        z.strictObject({
          path: z.string(),
          from_path: z.string().nullable(),
          status: z.enum(['added', 'modified', 'deleted', 'renamed']),
          /** Number of added lines; null for binary files. */
          additions: z.int().nullable(),
          /** Number of deleted lines; null for binary files. */
          deletions: z.int().nullable(),
        }),
      ),
      /** The diff in unified format, at most 1 MiB. */
      diff: z.string(),
      truncated: z.boolean(),
    }),
    errors: ['ref_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'source.commit',
    summary: 'Commits files to main and deploys them; wakes a sleeping app first',
    method: 'POST',
    path: '/v1/apps/:id/source/commit',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      message: text(10_000),
      author_email: z.email({ pattern: EMAIL }).max(254),
      author_name: text(200)
        .regex(/[^\s.,:;<>"\\']/, 'must have a letter or digit')
        .optional(),
      /** The commit that main must point to; otherwise the new commit is refused. */
      parent: sha.optional(),
      files: changes,
    }),
    output: z.strictObject({ sha, deploy_id: id }),
    status: 202,
    errors: ['path_not_found', 'commit_conflict', 'transition_conflict', 'host_unavailable'],
    bodyLimit: COMMIT_BODY_BYTES,
  }),
  operation({
    name: 'source.import',
    summary:
      'Imports the default branch of a public Git repository once, into an app without commits, and deploys it',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, url: repositoryUrl }),
    output: z.strictObject({ sha, deploy_id: id }),
    status: 202,
    errors: ['commit_conflict', 'import_failed', 'transition_conflict', 'rate_limited', 'host_unavailable'],
  }),
  operation({
    name: 'source.template',
    summary: 'Commits one of the templates to an app without commits, and deploys it',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, template: z.enum(templates.map(({ name }) => name)) }),
    output: z.strictObject({ sha, deploy_id: id }),
    status: 202,
    errors: ['commit_conflict', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
