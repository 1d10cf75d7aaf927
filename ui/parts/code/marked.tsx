// A text in which what was searched for stands out.

/** Parts of a text that were found, and those between. */
export function LogEnvelope({ text, search }: { text: string; search: string }) {
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
