// The machine's own host names.
import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';

/**
 * Returns the operator's host names in lower case: the machine's hostname, its name below `.local`, the names of its
 * addresses in `/etc/hosts`, and the name of an external control UI.
 * @param uiUrl origin of the external control UI; empty for none
 */
export function machineNames(uiUrl: string, hostsFile = '/etc/hosts'): string[] {
  const own = hostname().toLowerCase();
  const ui = uiUrl === '' ? [] : [new URL(uiUrl).hostname];
  return [...new Set([own, `${own.split('.')[0]}.local`, ...ui, ...namesIn(hostsFile)])];
}

function namesIn(hostsFile: string): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  const own = new Set(addresses.map(({ address }) => address));
  return readHosts(hostsFile).flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/);
    return own.has(address) || address.startsWith('127.') ? names : [];
  });
}

function readHosts(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}
