const list = document.getElementById('files');
const chosen = document.getElementById('chosen');
const area = document.getElementById('drop');
const state = document.getElementById('state');
const problem = document.getElementById('problem');

async function show() {
  const files = await (await fetch('/files')).json();
  list.replaceChildren(...files.map(row));
}

function row({ name, size, uploaded }) {
  const item = document.createElement('li');
  const text = Object.assign(document.createElement('span'), { className: 'text' });
  const path = `/files/${encodeURIComponent(name)}`;
  const link = Object.assign(document.createElement('a'), { href: path, textContent: name });
  const about = `${sizeOf(size)}, ${new Date(uploaded).toLocaleString()}`;
  text.append(link, Object.assign(document.createElement('div'), { className: 'muted', textContent: about }));
  const remove = Object.assign(document.createElement('button'), { textContent: 'Delete' });
  remove.setAttribute('aria-label', `Delete ${name}`);
  remove.onclick = async () => {
    await fetch(path, { method: 'DELETE' });
    await show();
  };
  item.append(text, remove);
  return item;
}

function sizeOf(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

async function send(files) {
  problem.textContent = '';
  for (const file of files) {
    state.textContent = `Sending ${file.name}`;
    const response = await fetch(`/files/${encodeURIComponent(file.name)}`, { method: 'PUT', body: file });
    if (!response.ok) problem.textContent = await response.text();
  }
  state.textContent = '';
  await show();
}

chosen.onchange = async () => {
  await send([...chosen.files]);
  chosen.value = '';
};
area.ondragover = (event) => {
  event.preventDefault();
  area.classList.add('over');
};
area.ondragleave = () => area.classList.remove('over');
area.ondrop = async (event) => {
  event.preventDefault();
  area.classList.remove('over');
  await send([...event.dataTransfer.files]);
};
await show();
