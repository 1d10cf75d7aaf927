// Sends a startup message to a PostgreSQL server: `/` returns the first byte of the server's answer, or the error.
// `/parts` returns the parts of the connection string.
export default {
  async fetch(request, { DB }) {
    try {
      if (new URL(request.url).pathname === '/parts') {
        const { host, port, user, password, database } = DB;
        return Response.json({ host, port, user, password, database });
      }
      const socket = DB.connect();
      const writer = socket.writable.getWriter();
      await writer.write(startup({ user: DB.user, database: DB.database }));
      const { value } = await socket.readable.getReader().read();
      await socket.close();
      return new Response(String.fromCharCode(value[0]));
    } catch (error) {
      return new Response(error.message, { status: 502 });
    }
  },
};

/** Returns the startup message of protocol version 3. */
function startup(settings) {
  const text = `${Object.entries(settings).flat().join('\0')}\0\0`;
  const bytes = new Uint8Array(8 + text.length);
  const view = new DataView(bytes.buffer);
  view.setInt32(0, bytes.length);
  view.setInt32(4, 3 << 16);
  bytes.set(new TextEncoder().encode(text), 8);
  return bytes;
}
