// Parses user agents into kind of device, client and operating system. Versions are left out.
import Bowser from 'bowser';

/** Only this many characters of a user agent are parsed. A browser sends about 150. */
const LENGTH_MAX = 400;
/** Longest name of a client or system, in characters: a program may send any name. */
const NAME_MAX = 40;
/** Maximum cached user agents. Over it, the cache is emptied. */
const REMEMBERED = 2_000;
const BOT = /bot\b|bot[/;)]|crawl|spider|slurp|preview|monitor|scan|archiver|headless|lighthouse/i;

export type DeviceKind = 'desktop' | 'mobile' | 'tablet' | 'tv' | 'bot' | 'program' | 'unknown';

export interface Device {
  kind: DeviceKind;
  /** Such as `Firefox`; null when unknown. */
  client: string | null;
  /** Such as `Android`; null when unknown. */
  os: string | null;
}

const known = new Map<string, string>();

/** Returns the device of a user agent as a key, which `readDevice` parses. */
export function deviceKey(userAgent: string): string {
  const text = userAgent.slice(0, LENGTH_MAX);
  let key = known.get(text);
  if (key !== undefined) return key;
  const { kind, client, os } = deviceOf(text);
  key = JSON.stringify([kind, client, os]);
  if (known.size >= REMEMBERED) known.clear();
  known.set(text, key);
  return key;
}

export function readDevice(key: string): Device {
  const [kind, client, os] = JSON.parse(key) as [DeviceKind, string | null, string | null];
  return { kind, client, os };
}

function deviceOf(userAgent: string): Device {
  if (userAgent.trim() === '') return { kind: 'unknown', client: null, os: null };
  const { browser, os, platform } = Bowser.parse(userAgent);
  const client = name(browser.name);
  if (platform.type === 'bot' || BOT.test(userAgent)) {
    // A bot may pose as a browser, so the client is the word that identifies the bot.
    return { kind: 'bot', client: botName(userAgent) ?? client, os: null };
  }
  if (!userAgent.startsWith('Mozilla/')) return { kind: 'program', client: productOf(userAgent), os: null };
  const kind = (['desktop', 'mobile', 'tablet', 'tv'] as const).find((type) => type === platform.type);
  return { kind: kind ?? 'unknown', client: client === 'Mozilla' ? null : client, os: name(os.name) };
}

function botName(userAgent: string): string | null {
  const words = userAgent.match(/[\w.-]+/g) ?? [];
  return name(words.find((word) => BOT.test(`${word}/`)));
}

/** Returns the first word of a user agent without its version: `curl/8.5.0` gives `curl`. */
function productOf(userAgent: string): string | null {
  return name(/^[\w.-]+/.exec(userAgent)?.[0]);
}

function name(text: string | undefined): string | null {
  return text ? text.slice(0, NAME_MAX) : null;
}
