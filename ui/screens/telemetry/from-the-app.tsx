// Explains how the code of an app reports events, users and insights.
import { Code } from '../../parts/code/code.tsx';

/** @param call a call of the binding, as code */
export function FromTheApp({ call }: { call: string }) {
  return (
    <>
      <p>The app reports them without a key. Bind the service cellar in its Wrangler configuration:</p>
      <Code text={'"services": [{ "binding": "CELLAR", "service": "cellar" }]'} label="Copy the binding" />
      <p>Then call it in the Worker:</p>
      <Code text={call} label="Copy the call" />
    </>
  );
}
