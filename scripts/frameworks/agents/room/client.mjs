// A room of PartyServer, whose WebSockets hibernate. After a sleep the clients connect again.
import assert from 'node:assert/strict';
import { PartySocket } from 'partysocket';
import { eventually, get, host, opened, sleep } from './support.mjs';

const join = async () => {
  const socket = new PartySocket({ host, protocol: 'ws', party: 'room', room: 'kitchen' });
  const heard = [];
  socket.addEventListener('message', ({ data }) => heard.push(data));
  await opened(socket);
  return { socket, heard };
};
const ann = await join();
await eventually('the first is greeted', () => ann.heard.includes('you are 1 in kitchen'));
const bob = await join();
await eventually('the second is greeted', () => bob.heard.includes('you are 2 in kitchen'));
bob.socket.send('hello');
await eventually('the message arrives', () => ann.heard.includes('2: hello'));
assert.ok(!bob.heard.includes('2: hello'));
assert.equal(JSON.parse(await get('/parties/room/kitchen')).connections, 2);
await sleep();
await eventually(
  'both are back',
  async () => JSON.parse(await get('/parties/room/kitchen')).connections === 2,
);
ann.socket.send('I am back');
await eventually('the message arrives', () => bob.heard.some((each) => each.endsWith(': I am back')));
process.exit();
