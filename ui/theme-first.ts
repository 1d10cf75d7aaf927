// Runs before the first paint, so that a dark page never flashes white. It is a separate file, because the page's policy
// forbids inline scripts.

/** Key in `localStorage` of the theme that the person chose. */
export const STORED = 'cellar-theme';

/** Returns the theme to show: the chosen one, else the system's. */
export function appliedTheme(): 'light' | 'dark' {
  const chosen = localStorage.getItem(STORED);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

document.documentElement.dataset.theme = appliedTheme();
