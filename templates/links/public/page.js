const list = document.getElementById('links');
const form = document.getElementById('form');
const problem = document.getElementById('problem');

function row({ short, url }) {
  const item = document.createElement('li');
  const text = Object.assign(document.createElement('span'), { className: 'text' });
  const link = Object.assign(document.createElement('a'), { href: short, textContent: short });
  const target = Object.assign(document.createElement('div'), { className: 'muted', textContent: url });
  text.append(link, target);
  const copy = Object.assign(document.createElement('button'), { textContent: 'Copy' });
  copy.setAttribute('aria-label', `Copy ${short}`);
  copy.onclick = async () => {
    await navigator.clipboard.writeText(short);
    copy.textContent = 'Copied';
  };
  item.append(text, copy);
  return item;
}

form.onsubmit = async (event) => {
  event.preventDefault();
  const { url, name } = Object.fromEntries(new FormData(form));
  const response = await fetch('/api/links', { method: 'POST', body: JSON.stringify({ url, name }) });
  problem.textContent = response.ok ? '' : await response.text();
  if (!response.ok) return;
  form.reset();
  list.prepend(row(await response.json()));
};

list.append(...(await (await fetch('/api/links')).json()).map(row));
