// Converts an alert's message to the formats of chats, ntfy and e-mails. The host stores only the JSON.
import type { Mail } from '../../handlers/contract/host/host-calls.ts';
import type { WebhookFormat } from '../../handlers/contract/telemetry/alert-format.ts';
import { cutText } from '../../handlers/contract/text.ts';
import type { AlertedApp } from './alerts.ts';

/** Maximum characters of a text for ntfy, which attaches texts over 4,096 bytes as files. A character may have 4 bytes. */
const NTFY_LENGTH = 1_000;

/** A message, as `Alerts.message` writes it. */
export interface AlertMessage {
  /** Such as `app.crashed`. */
  type: string;
  data: {
    app: AlertedApp | null;
    message: string;
    repeats: number;
    /** The failed deploy, with its page in the control UI. */
    deploy?: { url?: string | null } | null;
  };
}

/** The body of a request, and the headers that it needs. */
export interface Written {
  body: string;
  headers: Record<string, string>;
}

/** Writes a message for a webhook. @param text the message as JSON */
export function written(format: WebhookFormat, text: string): Written {
  if (format === 'json') return asJson(text);
  const message = JSON.parse(text) as AlertMessage;
  const title = titleOf(message);
  const body = bodyOf(message);
  const url = urlOf(message);
  switch (format) {
    case 'slack':
      return asJson(
        JSON.stringify({
          text: `*${escapeSlack(title)}*\n${escapeSlack(body)}${url === null ? '' : `\n${url}`}`,
        }),
      );
    case 'discord': {
      const isLink = url !== null && mayLinkEmbed(url);
      const description = `${escapeMarkdown(body)}${url === null || isLink ? '' : `\n${url}`}`;
      const embed = { title, description, ...(isLink && { url }) };
      return asJson(JSON.stringify({ embeds: [embed], allowed_mentions: { parse: [] } }));
    }
    case 'teams':
      return asJson(JSON.stringify(cardOf(title, body, url, message.data.deploy?.url ? 'deploy' : 'app')));
    case 'ntfy':
      return {
        body: cutText(body, NTFY_LENGTH, ' …'),
        headers: { 'content-type': 'text/plain; charset=utf-8', title, ...(url !== null && { click: url }) },
      };
  }
}

/** Writes a message as an e-mail. @param text the message as JSON */
export function mailOf(to: string, text: string): Mail {
  const message = JSON.parse(text) as AlertMessage;
  const url = urlOf(message);
  const lines = [
    bodyOf(message),
    ...(url === null ? [] : [url]),
    'This is an alert of the app, sent by Cellar.',
  ];
  return { to, subject: titleOf(message), text: `${lines.join('\n\n')}\n` };
}

/** Returns the URL that the message shows: of the failed deploy, or else of the app. */
function urlOf({ data }: AlertMessage): string | null {
  return data.deploy?.url ?? data.app?.url ?? null;
}

/** Returns one line of ASCII, such as `shop: app crashed`. */
function titleOf({ type, data }: AlertMessage): string {
  return `${data.app?.slug ?? 'Cellar'}: ${type.replace(/[._]/g, ' ')}`;
}

function bodyOf({ data: { message, repeats } }: AlertMessage): string {
  const times = repeats === 1 ? 'once' : `${repeats} times`;
  return repeats === 0 ? message : `${message}\nIt happened ${times} more since the last report.`;
}

function asJson(body: string): Written {
  return { body, headers: { 'content-type': 'application/json' } };
}

/** Escapes Slack's markup, by which text of the app could mention everybody or disguise a link. */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Whether Discord accepts a URL as an embed's link. It refuses messages that link a host without a dot, such as `nas`. */
function mayLinkEmbed(url: string): boolean {
  return /[.:]/.test(new URL(url).hostname);
}

function escapeMarkdown(text: string): string {
  return text.replace(/[\\*_~`|<>[\]()#]/g, '\\$&');
}

/** Returns an Adaptive Card. Its text runs are plain text, so nothing needs escaping. */
function cardOf(title: string, text: string, url: string | null, target: 'app' | 'deploy') {
  const run = (words: string, more: object) => ({
    type: 'RichTextBlock',
    inlines: [{ type: 'TextRun', text: words, ...more }],
  });
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: [run(title, { weight: 'Bolder' }), run(text, {})],
    ...(url !== null && { actions: [{ type: 'Action.OpenUrl', title: `Open the ${target}`, url }] }),
  };
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return { type: 'message', attachments: [{ contentType, contentUrl: null, content }] };
}
