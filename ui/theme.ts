// Light or dark theme: the system's, unless the person has chosen one.
import { effect, signal } from '@preact/signals';
import { appliedTheme, STORED } from './theme-first.ts';

export type Theme = 'system' | 'light' | 'dark';

const stored = localStorage.getItem(STORED);
export const theme = signal<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system');
/** The theme shown. Charts read it, because a canvas cannot use custom properties. */
export const shownTheme = signal(appliedTheme());

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  shownTheme.value = appliedTheme();
});
effect(() => {
  if (theme.value === 'system') localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, theme.value);
  shownTheme.value = appliedTheme();
});
effect(() => {
  document.documentElement.dataset.theme = shownTheme.value;
});
