// Uses the browser binding by Cloudflare's Playwright: answers with the title that a page got.
import { launch } from '@cloudflare/playwright';

export default {
  async fetch(request, env) {
    const browser = await launch(env.BROWSER);
    try {
      const page = await browser.newPage();
      await page.setContent(`<title>${new URL(request.url).searchParams.get('title')}</title>`);
      return new Response(await page.title());
    } finally {
      await browser.close();
    }
  },
};
