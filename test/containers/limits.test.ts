// Limits of containers, which need no container engine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppAddresses } from '../../runtime/browser/app-addresses.ts';
import { Container, type ContainerPlace } from '../../runtime/containers/container.ts';
import { Containers } from '../../runtime/containers/containers.ts';
import { MOST_WORDS } from '../../runtime/containers/messages.ts';

test('the bytes of the command and environment are limited, not their characters', () => {
  const addresses = new AppAddresses([]);
  const all = new Containers({ memoryMb: 1024, sockets: '/none', addresses, send: () => {} });
  const place = { app: 'app', owner: 'owner', directory: '/none', addresses } as ContainerPlace;
  const container = new Container(place);
  const start = (environment: string[]) => {
    const spec = { image: 'own', memoryMb: 1, cpu: 1, command: null, environment };
    all.requireRoom(container, spec, 'own');
  };
  start(['a'.repeat(MOST_WORDS)]);
  assert.throws(() => start(['é'.repeat(MOST_WORDS / 2), 'a']), /at most 65536 bytes/);
});
