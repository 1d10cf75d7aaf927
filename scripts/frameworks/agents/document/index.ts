import { routePartykitRequest } from 'partyserver';
import { YServer } from 'y-partyserver';
import * as Y from 'yjs';

export class Document extends YServer {
  static callbackOptions = { debounceWait: 50, debounceMaxWait: 100 };

  async onLoad() {
    const stored = await this.ctx.storage.get<Uint8Array>('document');
    if (stored) Y.applyUpdate(this.document, stored);
  }

  async onSave() {
    await this.ctx.storage.put('document', Y.encodeStateAsUpdate(this.document));
    await this.ctx.storage.put('saved', this.document.getText('text').toString());
  }

  async onRequest() {
    return new Response((await this.ctx.storage.get<string>('saved')) ?? '');
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routePartykitRequest(request, env as never)) ?? new Response('Not Found', { status: 404 });
  },
};
