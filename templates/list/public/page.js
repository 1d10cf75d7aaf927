const list = document.getElementById('items');
const form = document.getElementById('form');
const state = document.getElementById('state');
const problem = document.getElementById('problem');

async function show() {
  const items = await (await fetch('/items')).json();
  list.replaceChildren(...items.map(row));
}

function row({ id, text, done }) {
  const item = document.createElement('li');
  const box = Object.assign(document.createElement('input'), { type: 'checkbox', checked: done === 1 });
  box.onchange = () => send('PUT', `/items/${id}`);
  const label = Object.assign(document.createElement('label'), { className: 'text' });
  label.append(box, text);
  const remove = Object.assign(document.createElement('button'), { textContent: 'Remove' });
  remove.setAttribute('aria-label', `Remove ${text}`);
  remove.onclick = () => send('DELETE', `/items/${id}`);
  item.append(label, remove);
  return item;
}

async function send(method, path, body) {
  const response = await fetch(path, { method, body });
  problem.textContent = response.ok ? '' : await response.text();
  if (response.ok) await show();
  return response.ok;
}

/** Shows the list again after each change. Connects again when the connection ends. */
function follow() {
  const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/live`);
  socket.onopen = () => {
    state.textContent = 'Live: everybody with this address sees each change at once';
    show();
  };
  socket.onmessage = show;
  socket.onclose = () => {
    state.textContent = 'Not connected; trying again';
    setTimeout(follow, 2_000);
  };
}

form.onsubmit = async (event) => {
  event.preventDefault();
  if (await send('POST', '/items', form.elements.text.value)) form.reset();
};
follow();
