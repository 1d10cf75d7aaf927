// Highlights search results in a text.

/** Shows a text with all matches of `search` marked. */
export function Highlighted({ text, search }: { text: string; search: string }) {
  if (search === '') return <>{text}</>;
  const wanted = search.toLowerCase();
  const lower = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    from = at + wanted.length;
  }
  return (
    <>
      {parts}
      {text.slice(from)}
    </>
  );
}
