// The machine's own host names.
import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';

/**
 * Returns the machine's own names in lower case: its hostname, also below `.local`, and the names of its addresses in
 * `/etc/hosts`.
 * @param uiUrl origin of an external control UI, whose name is the operator's too; empty for none
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
