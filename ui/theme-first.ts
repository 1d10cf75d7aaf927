// Runs before the first paint, so that a dark page never flashes white. A separate file, because inline scripts are forbidden.

/** Key in `localStorage`. */
export const STORED = 'cellar-theme';

/** The theme to show. */
export function appliedTheme(): 'light' | 'dark' {
  const chosen = localStorage.getItem(STORED);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

document.documentElement.dataset.theme = appliedTheme();
