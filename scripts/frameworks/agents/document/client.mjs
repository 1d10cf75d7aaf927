// Two people write into one document of Yjs, which is stored and loaded again.
import assert from 'node:assert/strict';
import YProvider from 'y-partyserver/provider';
import * as Y from 'yjs';
import { eventually, get, host, sleep } from './support.mjs';

const open = () => {
  const document = new Y.Doc();
  new YProvider(host, 'plan', document, { party: 'document', protocol: 'ws', disableBc: true });
  return document.getText('text');
};
const [ann, bob] = [open(), open()];
ann.insert(0, 'Hello');
await eventually('the text arrives', () => bob.toString() === 'Hello');
bob.insert(5, ', world');
await eventually('the change arrives', () => ann.toString() === 'Hello, world');
await eventually('it is stored', async () => (await get('/parties/document/plan')) === 'Hello, world');
await sleep();
const carl = open();
await eventually('it is loaded', () => carl.toString() === 'Hello, world');
carl.delete(5, 7);
await eventually('the others connect again', () => ann.toString() === 'Hello' && bob.toString() === 'Hello');
assert.equal(carl.toString(), 'Hello');
process.exit();
