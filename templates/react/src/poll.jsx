import { useEffect, useState } from 'react';

/** Returns the choices that the server answers with. @throws {Error} when the server refuses the request */
async function ask(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return response.json();
}

/** A question, its choices and their votes. */
export function Poll() {
  const [choices, setChoices] = useState(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    ask('/api/choices').then(setChoices, (error) => setProblem(error.message));
  }, []);
  const vote = (id) =>
    ask(`/api/choices/${id}/votes`, { method: 'POST' }).then(
      (voted) => {
        setChoices(voted);
        setProblem('');
      },
      (error) => setProblem(error.message),
    );
  const all = (choices ?? []).reduce((sum, { votes }) => sum + votes, 0);
  return (
    <main>
      <header>
        <img src="/favicon.svg" alt="" />
        <div>
          <h1>What shall we drink?</h1>
          <p className="muted">{all === 1 ? '1 vote' : `${all} votes`}</p>
        </div>
      </header>
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {choices?.map(({ id, text, votes }) => (
        <button key={id} type="button" className="choice" onClick={() => vote(id)}>
          <span className="bar" style={{ width: `${all === 0 ? 0 : (100 * votes) / all}%` }} />
          <span className="text">{text}</span>
          <span className="votes">{votes}</span>
        </button>
      ))}
    </main>
  );
}
