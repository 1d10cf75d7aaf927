// The servers outside of Cellar that agents use: one for AI, and one that takes the e-mails which Cellar sends.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AI_KEY, AiServer } from '../../test/support/ai/server.ts';
import { Inbox } from '../../test/support/mail/inbox.ts';
import { ownPort } from '../../test/support/ports.ts';
import { MAX_PROJECTS } from './project.ts';

export interface Services {
  /** Settings of a Cellar that uses the servers. */
  settings: Record<string, string>;
  /** Environment variables for the clients of projects. */
  environment: Record<string, string>;
  close(): Promise<void>;
}

/** Starts the servers on free ports. */
export async function startServices(): Promise<Services> {
  const [ai, inbox, mailPort] = [await new AiServer().start(), await Inbox.start(), String(ownPort())];
  const sent = createServer((_request, response) => response.end(JSON.stringify(inbox.received)));
  sent.listen(0, '127.0.0.1');
  await once(sent, 'listening');
  return {
    settings: {
      RUNNER_AI_URL: ai.url,
      RUNNER_AI_KEY: AI_KEY,
      RUNNER_AI_MODELS: '@cf/meta/llama-3.3-70b-instruct-fp8-fast=quick',
      RUNNER_TRUSTED_PROXIES: '127.0.0.1',
      RUNNER_MAIL_PORT: mailPort,
      RUNNER_SMTP_URL: inbox.url,
      RUNNER_SMTP_FROM: 'Cellar <cellar@example.com>',
      RUNNER_SMTP_APP_SENDERS: Array.from({ length: MAX_PROJECTS }, (_, i) => `app-${i}.localhost`).join(),
    },
    environment: {
      MAIL_PORT: mailPort,
      INBOX: `http://127.0.0.1:${(sent.address() as AddressInfo).port}`,
    },
    async close() {
      sent.close();
      await ai[Symbol.asyncDispose]();
      await inbox.close();
    },
  };
}
