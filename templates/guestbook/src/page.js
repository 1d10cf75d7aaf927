/** Returns the page as HTML. @param entries the newest first */
export function page(entries) {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Guestbook</title>
    <style>
      :root { color-scheme: light dark; font: 16px / 1.5 system-ui, sans-serif; }
      body { max-width: 36em; margin: 10vh auto; padding: 0 1.5em; }
      form { display: grid; gap: 0.5em; margin-bottom: 2em; }
      input, button { font: inherit; padding: 0.5em; }
    </style>
  </head>
  <body>
    <h1>Guestbook</h1>
    <form method="post">
      <input name="name" aria-label="Your name" placeholder="Your name" required maxlength="100">
      <input name="message" aria-label="Your message" placeholder="Say something" required maxlength="1000">
      <button type="submit">Sign</button>
    </form>
    ${entries.map(({ name, message }) => `<p><b>${html(name)}</b> ${html(message)}</p>`).join('\n    ')}
  </body>
</html>
`;
}

/** Escapes the text of a visitor for HTML. */
function html(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
