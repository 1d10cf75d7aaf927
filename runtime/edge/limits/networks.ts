// IP networks: which addresses count as one visitor, and how addresses are truncated for logs.

/**
 * Returns the key under which an address is counted: the address for IPv4, also when mapped into IPv6; the /64 for
 * IPv6, because one visitor gets a whole /64. The key is a number or a short string, to save memory.
 */
export function visitorOf(address: string): number | string {
  if (!address.includes(':')) return ipv4Number(address) ?? address;
  const groups = ipv6Groups(address);
  if (groups === null) return address;
  if (isMapped(groups)) return groups[6]! * 65_536 + groups[7]!;
  return hexadecimal(groups.slice(0, 4));
}

/** Truncates an address to its /24, or /48 for IPv6. Returns other strings unchanged. */
export function cutAddress(address: string): string {
  if (!address.includes(':')) {
    return ipv4Number(address) === null ? address : `${address.slice(0, address.lastIndexOf('.'))}.0`;
  }
  const groups = ipv6Groups(address);
  if (groups === null) return address;
  if (isMapped(groups)) return `${groups[6]! >> 8}.${groups[6]! & 255}.${groups[7]! >> 8}.0`;
  return `${hexadecimal(groups.slice(0, 3))}::`;
}

function ipv4Number(text: string): number | null {
  let number = 0;
  let byte = -1;
  let dots = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 46) {
      if (byte === -1) return null;
      number = number * 256 + byte;
      byte = -1;
      dots++;
    } else if (code >= 48 && code <= 57) {
      byte = (byte === -1 ? 0 : byte) * 10 + code - 48;
      if (byte > 255) return null;
    } else return null;
  }
  return dots === 3 && byte !== -1 ? number * 256 + byte : null;
}

/** Parses the eight groups of an IPv6 address without a zone; returns null for other strings. */
function ipv6Groups(text: string): number[] | null {
  let address = text;
  const dot = text.indexOf('.');
  if (dot !== -1) {
    const colon = text.lastIndexOf(':', dot);
    const number = ipv4Number(text.slice(colon + 1));
    if (number === null) return null;
    address = `${text.slice(0, colon + 1)}${(number >>> 16).toString(16)}:${(number & 65_535).toString(16)}`;
  }
  const gap = address.indexOf('::');
  if (gap === -1) return groupsOf(address, 8);
  const front = groupsOf(address.slice(0, gap), 7);
  const back = groupsOf(address.slice(gap + 2), 7);
  if (front === null || back === null || front.length + back.length > 7) return null;
  while (front.length + back.length < 8) front.push(0);
  return front.concat(back);
}

function groupsOf(text: string, max: number): number[] | null {
  if (text === '') return [];
  const groups = text.split(':').map((group) => (group === '' ? NaN : Number(`0x${group}`)));
  return groups.length <= max && groups.every((group) => group >= 0 && group <= 65_535) ? groups : null;
}

function isMapped(groups: number[]): boolean {
  for (let i = 0; i < 5; i++) if (groups[i] !== 0) return false;
  return groups[5] === 65_535;
}

function hexadecimal(groups: number[]): string {
  return groups.map((group) => group.toString(16)).join(':');
}
