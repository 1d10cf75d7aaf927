// Uses the browser binding by Cloudflare's Puppeteer. The body of a request is a page, as HTML.
import puppeteer from '@cloudflare/puppeteer';

export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    try {
      return await calls[pathname](env.BROWSER, searchParams, await request.text());
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
};

const calls = {
  /** Answers with a screenshot of the page. */
  '/screenshot': (binding, _, html) =>
    inBrowser(binding, async (page) => {
      await page.setContent(html);
      return new Response(await page.screenshot(), { headers: { 'content-type': 'image/png' } });
    }),
  '/pdf': (binding, _, html) =>
    inBrowser(binding, async (page) => {
      await page.setContent(html);
      return new Response(await page.pdf());
    }),
  /** Answers with the HTML of each page of a list of URLs, or the error of the browser. */
  '/visit': (binding, _, urls) =>
    inBrowser(binding, async (_page, browser) => {
      const visited = [];
      for (const url of JSON.parse(urls)) {
        const page = await browser.newPage();
        const read = page.goto(url).then(() => page.content());
        visited.push(await read.catch(String));
        await page.close();
      }
      return Response.json(visited);
    }),
  /** Answers with the value of a script in an empty page. */
  '/evaluate': (binding, _, script) =>
    inBrowser(binding, async (page) => Response.json((await page.evaluate(script)) ?? null)),
  /** Launches a browser whose page has a title, and leaves it. */
  '/leave': async (binding, parameters) => {
    const browser = await puppeteer.launch(binding, { keep_alive: 600_000 });
    const page = await browser.newPage();
    await page.setContent(`<title>${parameters.get('title')}</title>`);
    const id = browser.sessionId();
    await browser.disconnect();
    return new Response(id);
  },
  /** Connects to a session, and answers with the titles of its pages. */
  '/titles': async (binding, parameters) => {
    const browser = await puppeteer.connect(binding, parameters.get('id'));
    const titles = await Promise.all((await browser.pages()).map((page) => page.title()));
    if (parameters.has('close')) await browser.close();
    else await browser.disconnect();
    return Response.json(titles);
  },
  /** Runs a script in the first page of a session, and does not wait for its end. */
  '/run': async (binding, parameters, script) => {
    const browser = await puppeteer.connect(binding, parameters.get('id'));
    const [page] = await browser.pages();
    const started = page.evaluate(script).catch(() => {});
    await Promise.race([started, scheduler.wait(1_000)]);
    await browser.disconnect();
    return new Response('started');
  },
  '/sessions': async (binding) => Response.json(await puppeteer.sessions(binding)),
  '/history': async (binding) => Response.json(await puppeteer.history(binding)),
  '/limits': async (binding) => Response.json(await puppeteer.limits(binding)),
  /** Launches browsers at once, and answers with what became of each. */
  '/many': async (binding, parameters) => {
    const count = Number(parameters.get('count'));
    const launches = Array.from({ length: count }, () => puppeteer.acquire(binding));
    const ended = await Promise.allSettled(launches);
    return Response.json(ended.map(({ value, reason }) => value?.sessionId ?? String(reason)));
  },
  /** Sends a request to the binding itself. */
  '/raw': (binding, parameters, body) =>
    binding.fetch(`https://browser${parameters.get('path')}`, {
      method: parameters.get('method') ?? 'GET',
      ...(body && { body }),
    }),
};

async function inBrowser(binding, use) {
  const browser = await puppeteer.launch(binding);
  try {
    return await use(await browser.newPage(), browser);
  } finally {
    await browser.close();
  }
}
