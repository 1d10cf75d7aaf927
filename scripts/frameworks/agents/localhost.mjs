// Resolves names below `localhost` to 127.0.0.1, as browsers do: `node --import`.
import dns from 'node:dns';

const { lookup } = dns;
dns.lookup = (name, options, found) =>
  name.endsWith('.localhost') ? lookup('127.0.0.1', options, found) : lookup(name, options, found);
