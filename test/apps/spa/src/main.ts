import './style.css';

const app = document.querySelector('#app')!;

const pages: Record<string, () => Promise<string> | string> = {
  '/': () => 'A page that runs in the browser.',
  '/clock': async () => `The Worker's clock says ${(await (await fetch('/api/time')).json()).now}.`,
};

async function show() {
  const page = pages[location.pathname] ?? (() => 'No such page.');
  app.textContent = await page();
}

document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest('a');
  if (link?.origin !== location.origin) return;
  event.preventDefault();
  history.pushState(null, '', link.href);
  show();
});
window.addEventListener('popstate', show);
show();
