const form = document.getElementById('form');
const log = document.getElementById('messages');
const problem = document.getElementById('problem');
const messages = [];

function say(role, content) {
  const line = Object.assign(document.createElement('p'), { className: role, textContent: content });
  log.append(line);
  return line;
}

/** Yields the text of each server-sent event. */
async function* texts(body) {
  let rest = '';
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split('\n');
    rest = lines.pop();
    for (const line of lines)
      if (line.startsWith('data: ') && line !== 'data: [DONE]')
        yield JSON.parse(line.slice(6)).response ?? '';
  }
}

async function ask(text) {
  messages.push({ role: 'user', content: text });
  say('user', text);
  const response = await fetch('/chat', { method: 'POST', body: JSON.stringify(messages.slice(-20)) });
  if (!response.ok) throw new Error(await response.text());
  const line = say('assistant', '');
  for await (const piece of texts(response.body)) {
    line.textContent += piece;
    line.scrollIntoView({ block: 'nearest' });
  }
  messages.push({ role: 'assistant', content: line.textContent });
}

form.onsubmit = async (event) => {
  event.preventDefault();
  const text = form.elements.text.value;
  const [, button] = form.elements;
  form.reset();
  problem.textContent = '';
  button.disabled = true;
  await ask(text).catch((error) => {
    messages.pop();
    problem.textContent = error.message;
  });
  button.disabled = false;
  form.elements.text.focus();
};
