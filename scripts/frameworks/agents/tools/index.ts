import { generateText, stepCountIs, streamText, tool } from 'ai';
import { createWorkersAI } from 'workers-ai-provider';
import { z } from 'zod';

interface Env {
  AI: Ai;
}

const weather = tool({
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `It rains in ${city}`,
});

export default {
  async fetch(request: Request, env: Env) {
    const model = createWorkersAI({ binding: env.AI })('@cf/meta/llama-3.3-70b-instruct-fp8-fast');
    const { pathname, searchParams } = new URL(request.url);
    const prompt = searchParams.get('prompt') ?? '';
    if (pathname === '/stream') return streamText({ model, prompt }).toTextStreamResponse();
    if (pathname === '/text') return Response.json((await generateText({ model, prompt })).text);
    const { steps } = await generateText({ model, prompt, tools: { weather }, stopWhen: stepCountIs(1) });
    return Response.json(steps[0]!.toolResults.map(({ toolName, output }) => ({ toolName, output })));
  },
};
