// Answers by TCP what the first line asks for.
const encoder = new TextEncoder();
const lost = [];

export default {
  fetch: () => Response.json(lost),
  async connect(socket) {
    const reader = socket.readable.getReader();
    const writer = socket.writable.getWriter();
    const say = (text) => writer.write(encoder.encode(text));
    const { value } = await reader.read();
    const [word, ...rest] = new TextDecoder().decode(value).trim().split(' ');
    switch (word) {
      case 'who':
        await say(JSON.stringify(await socket.opened));
        return;
      case 'echo': {
        await say('ready\n');
        reader.releaseLock();
        writer.releaseLock();
        await socket.readable.pipeTo(socket.writable);
        return;
      }
      case 'sum': {
        // Counts to the client's end, and then answers.
        let bytes = 0;
        for (let read = await reader.read(); !read.done; read = await reader.read())
          bytes += read.value.length;
        await say(`${bytes}`);
        return;
      }
      case 'send': {
        const chunk = new Uint8Array(100_000).fill(120);
        for (let left = Number(rest[0]); left > 0; left -= chunk.length)
          await writer.write(chunk.subarray(0, Math.min(left, chunk.length)));
        await writer.close();
        return;
      }
      case 'unawaited':
        say('all of it');
        return;
      case 'half': {
        await writer.close();
        const { value: more } = await reader.read();
        lost.push(new TextDecoder().decode(more));
        return;
      }
      case 'throw':
        await say('before');
        throw new Error('as asked by TCP');
      case 'close':
        await say('bye');
        await socket.close();
        lost.push('closed');
        return;
      case 'tls':
        try {
          socket.startTls();
        } catch (error) {
          await say(error.message);
        }
        return;
      case 'watch':
        await say('watching');
        try {
          await reader.read();
          lost.push('ended');
        } catch (error) {
          lost.push(error.message);
        }
        return;
    }
  },
};
