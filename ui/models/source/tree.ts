// Builds a tree of a commit's files.

export interface TreeFile {
  path: string;
  /** Bytes; null for a submodule or an uncommitted file. */
  size: number | null;
}

export interface TreeNode {
  name: string;
  path: string;
  /** Null for a file. */
  children: TreeNode[] | null;
  size: number | null;
}

/** Builds the tree: folders first, then by name. */
export function buildTree(files: readonly TreeFile[]): TreeNode[] {
  const root: TreeNode = { name: '', path: '', children: [], size: null };
  const folders = new Map([['', root]]);
  const folder = (path: string): TreeNode => {
    const known = folders.get(path);
    if (known) return known;
    const slash = path.lastIndexOf('/');
    const made: TreeNode = { name: path.slice(slash + 1), path, children: [], size: null };
    folders.set(path, made);
    folder(path.slice(0, Math.max(0, slash))).children!.push(made);
    return made;
  };
  for (const { path, size } of files) {
    const slash = path.lastIndexOf('/');
    const node = { name: path.slice(slash + 1), path, children: null, size };
    folder(path.slice(0, Math.max(0, slash))).children!.push(node);
  }
  const sort = (nodes: TreeNode[]) => {
    nodes.sort(
      (a, b) => Number(a.children === null) - Number(b.children === null) || a.name.localeCompare(b.name),
    );
    for (const { children } of nodes) if (children) sort(children);
  };
  sort(root.children!);
  return root.children!;
}

/** Returns the files whose path contains every word of the filter. */
export function filterFiles<File extends TreeFile>(files: readonly File[], filter: string): File[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return files.filter(({ path }) => words.every((word) => path.toLowerCase().includes(word)));
}

/** Returns the parent folders of a path: `a` and `a/b` for `a/b/c.ts`. */
export function foldersOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}

/** Returns why a path is not valid for a new file; null when it is. */
export function pathFault(path: string, files: readonly TreeFile[]): string | null {
  if (path === '') return 'Give the file a name.';
  if (path.startsWith('/') || path.endsWith('/')) return 'A path neither begins nor ends with a slash.';
  if (
    path
      .split('/')
      .some((part) => part === '' || part === '.' || part === '..' || part.toLowerCase() === '.git')
  )
    return 'No part of a path may be empty, `.`, `..` or `.git`.';
  if (files.some((file) => file.path === path)) return 'A file with this path exists already.';
  if (files.some((file) => file.path.startsWith(`${path}/`)))
    return 'A folder with this path exists already.';
  if (files.some((file) => path.startsWith(`${file.path}/`)))
    return 'One of the folders in this path is a file.';
  return null;
}
