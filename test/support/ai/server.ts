// An AI server that speaks OpenAI's protocol, as Ollama and vLLM do. A chat answer repeats the question. An embedding counts
// letters. Some names of models cause errors or delays.
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const AI_KEY = 'sk-key-of-the-ai-server';

export interface AiRequest {
  path: string;
  authorization: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: the tests assert on the body
  body: any;
}

export class AiServer {
  /** All requests, oldest first. */
  readonly asked: AiRequest[] = [];
  /** `asked`: a request arrived; `left`: its client disconnected before the answer ended. */
  readonly events = new EventEmitter();
  /** Resume functions of the delayed answers. `letGo` calls them. */
  #waiting: (() => void)[] = [];
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  /** The value for `RUNNER_AI_URL`. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  /** Ends all connections. */
  cut(): void {
    this.#server.closeAllConnections();
  }

  /** Continues all waiting answers. */
  letGo(): void {
    for (const go of this.#waiting.splice(0)) go();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    const path = request.url!;
    const { authorization } = request.headers;
    this.asked.push({ path, authorization, body });
    response.on('close', () => {
      if (!response.writableEnded) this.events.emit('left');
    });
    this.events.emit('asked');
    if (authorization !== `Bearer ${AI_KEY}`)
      return fail(response, 401, `Incorrect API key provided: ${authorization}`);
    if (path === '/v1/chat/completions') return this.#chat(body, response);
    if (path === '/v1/embeddings') return embed(body, response);
    fail(response, 404, `there is no ${path}`);
  }

  // biome-ignore lint/suspicious/noExplicitAny: OpenAI's format
  async #chat(body: any, response: ServerResponse): Promise<void> {
    const { model, messages, tools, stream } = body;
    if (model === 'missing') return fail(response, 404, `model "${model}" not found, try pulling it first`);
    if (model === 'broken') return fail(response, 500, `out of memory, key ${AI_KEY}`);
    if (model === 'slow') await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (model === 'stuck') {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{');
      return;
    }
    const question = messages.at(-1).content;
    const usage = { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 };
    const head = { id: 'chatcmpl-1', model };
    if (tools) {
      const { name } = tools[0].function;
      const tool_calls = [
        { id: 'call_1', type: 'function', function: { name, arguments: '{"city":"Oslo"}' } },
      ];
      return send(response, {
        ...head,
        choices: [{ message: { role: 'assistant', content: null, tool_calls } }],
        usage,
      });
    }
    const words = ['You', ' said', ` ${question}`];
    if (!stream)
      return send(response, {
        ...head,
        choices: [{ message: { role: 'assistant', content: words.join('') } }],
        usage,
      });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [n, content] of words.entries()) {
      // Each part after the first waits for `letGo`, so that a test can read the previous part first. The model `quick`
      // does not wait.
      if (n > 0 && model !== 'quick') await new Promise<void>((resolve) => this.#waiting.push(resolve));
      const event = `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta: { content } }] })}\n\n`;
      // Sends each event in two chunks. The boundary may be inside a multi-byte character.
      const bytes = Buffer.from(event);
      response.write(bytes.subarray(0, bytes.length - 9));
      response.write(bytes.subarray(bytes.length - 9));
    }
    response.end(`data: ${JSON.stringify({ ...head, choices: [], usage })}\n\ndata: [DONE]\n\n`);
  }
}

function embed(
  { input, model }: { input: string | string[]; model: string },
  response: ServerResponse,
): void {
  const vector = (text: string) => [...'abcdefgh'].map((letter) => text.split(letter).length - 1);
  const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vector(text) }));
  send(response, {
    object: 'list',
    model,
    data: data.reverse(),
    usage: { prompt_tokens: 1, total_tokens: 1 },
  });
}

function send(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function fail(response: ServerResponse, status: number, message: string): void {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ error: { message } }));
}
