// Runs before the first paint, so that a dark page never flashes white. A script of its own: nothing stands inline.

/** Where the choice is kept. */
export const STORED = 'cellar-theme';

/** The theme to show. */
export function appliedTheme(): 'light' | 'dark' {
  const chosen = localStorage.getItem(STORED);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

document.documentElement.dataset.theme = appliedTheme();
