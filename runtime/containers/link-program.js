// Runs beside a container, in its network, which has only loopback. Connects that network with the container service: each
// connection to the proxy's port goes out through one socket, and the service reaches the container's ports through another.
import net from 'node:net';

/** The port at which the container reaches its proxy. */
const PROXY_PORT = 39001;
const PORT_BYTES = 2;

net
  .createServer({ allowHalfOpen: true }, (inner) => join(inner, connect('/sockets/out')))
  .listen(PROXY_PORT, '127.0.0.1');
offer();

/**
 * Offers the service one connection, and the next one once this is in use. The service sends the container's port. The
 * answer is `1` after connecting to that port, or `0` if that fails.
 */
function offer() {
  const outer = connect('/sockets/in');
  // The service has ended. The host then removes this link.
  const leave = () => process.exit();
  outer.on('error', leave).on('end', leave);
  outer.on('readable', function read() {
    const port = outer.read(PORT_BYTES)?.readUInt16BE();
    if (port === undefined) return;
    outer.off('error', leave).off('end', leave).off('readable', read);
    offer();
    const inner = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const refuse = () => outer.end('0');
    inner.once('error', refuse);
    inner.once('connect', () => {
      inner.off('error', refuse);
      outer.write('1');
      join(inner, outer);
    });
  });
}

function connect(path) {
  const outer = net.connect({ path, allowHalfOpen: true });
  outer.on('error', () => outer.destroy());
  return outer;
}

function join(one, other) {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ]) {
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
    from.pipe(to);
  }
}
