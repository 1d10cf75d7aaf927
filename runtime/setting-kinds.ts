// Kinds of settings: each with its parser and its error messages.
import { accessSync, constants } from 'node:fs';
import { isIPv4 } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import type { BucketPrices } from './bucket/proxy/prices.ts';
import { DATA_DIRECTORY_MAX } from './disk/data-directory.ts';
import { AddressRanges } from './isolation/address-ranges.ts';
import { reason } from './log.ts';
import { isAddress } from './mail/addresses.ts';
import { isSender, type SmtpServer, smtpServer } from './mail/smtp-server.ts';
import { LogFilter } from './telemetry/logs/log-filter.ts';

const numberLike = (form: RegExp, message: string) => (min: number, max: number) =>
  z
    .string()
    .regex(form, message)
    .transform(Number)
    .refine((n) => n >= min && n <= max, `must be from ${min} to ${max}`);
export const integer = numberLike(/^\d+$/, 'must be a whole number');
export const decimal = numberLike(/^\d+(\.\d+)?$/, 'must be a number such as 24 or 0.5, not below 0');
export const port = integer(0, 65_535);
/** Null: no e-mails are received. */
export const mailPort = z.union([z.literal('').transform(() => null), port]);
/** Maximum number of ports in `RUNNER_TCP_PORTS`. */
const TCP_PORTS = 1_000;
/** A range such as `20000-20100`, or one port. Null: no TCP ports. */
export const tcpPorts = z.union([
  z.literal('').transform(() => null),
  z
    .string()
    .regex(/^\d{1,5}(-\d{1,5})?$/, 'must be a range of ports such as 20000-20100')
    .transform((text) => {
      const [first = 0, last = first] = text.split('-').map(Number);
      return { first, last };
    })
    .refine(
      ({ first, last }) => first >= 1024 && last <= 65_535 && first <= last && last - first < TCP_PORTS,
      `must be from 1024 to 65535, and at most ${TCP_PORTS} ports`,
    ),
]);
export const domain = z
  .string()
  .max(200, 'must have at most 200 characters')
  .regex(
    /^(?!-)[a-z0-9-]+(\.(?!-)[a-z0-9-]+)*$/,
    'must be a host name in lower case, without scheme, port or dot at the end',
  );
export const origin = z.union([
  z.literal(''),
  z
    .string()
    .refine(
      (text) => /^https?:\/\/[^/?#@]+$/.test(text) && URL.canParse(text),
      'must be like https://example.com or http://example.com:8000, without a path',
    ),
]);

/** Splits a text at commas, trims the parts and drops empty ones. */
const commaList = z.string().transform((text) =>
  text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== ''),
);
export const origins = commaList.refine(
  (each) => each.every((one) => /^https?:\/\/[^/?#@*]+$/.test(one) && URL.parse(one)?.origin === one),
  'must be origins such as https://example.com, separated by commas, without paths',
);
export const paths = commaList;
/** An absolute path of a program that exists; empty for none. */
export const browserPath = z.string().refine((path) => {
  if (path === '') return true;
  try {
    accessSync(path, constants.X_OK);
    return isAbsolute(path);
  } catch {
    return false;
  }
}, 'must be the absolute path of a program, such as /usr/bin/chromium');
/** The address of a WebSocket, which may have a key in its query; empty for none. */
export const browserUrl = z.union([
  z.literal(''),
  z
    .string()
    .refine(
      (text) => /^wss?:\/\/[^\s#@]+$/.test(text) && URL.canParse(text),
      'must be like ws://127.0.0.1:3000 or wss://browser.example.com?token=key, without a user',
    ),
]);

const UNIX = 'unix://';
/** The path of a unix socket, given as a URL; empty for none. */
export const engineSocket = z
  .string()
  .refine(
    (url) => url === '' || (url.startsWith(UNIX) && isAbsolute(url.slice(UNIX.length))),
    'must be a unix socket, such as unix:///run/podman/podman.sock',
  )
  .transform((url) => url.slice(UNIX.length));
export const perMinute = integer(0, 10_000_000);
export const addressRanges = commaList.superRefine((ranges, context) => {
  try {
    new AddressRanges(ranges);
  } catch (error) {
    context.addIssue({ code: 'custom', message: `is wrong: ${reason(error)}` });
  }
});

export const dataDirectory = z
  .string()
  .min(1, 'must not be empty')
  .transform((path) => resolve(path))
  .refine(
    (path) => Buffer.byteLength(path) <= DATA_DIRECTORY_MAX,
    `must resolve to at most ${DATA_DIRECTORY_MAX} bytes, because Unix sockets lie below it; name a shorter directory`,
  );
export const token = z.union([
  z.literal(''),
  z
    .string()
    .regex(
      /^[\x21-\x7e]{16,256}$/,
      'must have 16 to 256 printable characters without spaces; `openssl rand -hex 32` makes one',
    ),
]);
const S3_URL = /^s3:\/\/[\w.-]+(\/[\w.-]+)*\/?$/;
export const s3Url = z.string().regex(S3_URL, 'must be s3://bucket/prefix');
export const region = z.string().regex(/^[\w-]+$/, 'must be like us-east-1');
export const clusterKey = z
  .string()
  .regex(
    /^([0-9a-f]{64})?$/i,
    'must have 64 hexadecimal characters (32 bytes); `openssl rand -hex 32` makes one',
  );
/** The default port between hosts. */
const HOSTS_PORT = 8790;
/** Null: this is the only host. */
export const hostAddress = z.string().transform((text, context): { host: string; port: number } | null => {
  if (text === '') return null;
  const [, host, port] = /^([\d.]+)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const number = port === undefined ? HOSTS_PORT : Number(port);
  if (host !== undefined && isIPv4(host) && host !== '0.0.0.0' && number > 0 && number < 65_535)
    return { host, port: number };
  context.addIssue({
    code: 'custom',
    message: `must be an IPv4 address of a private network, with a port from 1 to 65534 if you like, such as 10.0.0.2 or 10.0.0.2:${HOSTS_PORT}`,
  });
  return z.NEVER;
});
export const bucketPrices = z.string().transform((text, context): BucketPrices | null => {
  if (text.trim() === '') return null;
  const prices: Partial<BucketPrices> = {};
  for (const pair of text.split(',')) {
    const [, name, price] = /^\s*(writes|reads|deletes)\s*=\s*(\d{1,6}(?:\.\d{1,6})?)\s*$/.exec(pair) ?? [];
    if (name === undefined || name in prices) {
      context.addIssue({
        code: 'custom',
        message: `must have each price once, like writes=4.50,reads=0.36,deletes=0, not '${pair.trim()}'`,
      });
      return z.NEVER;
    }
    prices[name as keyof BucketPrices] = Number(price);
  }
  const { writes, reads, deletes = 0 } = prices;
  if (writes === undefined || reads === undefined) {
    const missing = writes === undefined ? 'writes' : 'reads';
    context.addIssue({
      code: 'custom',
      message: `must have the price of ${missing} too, like writes=4.50,reads=0.36`,
    });
    return z.NEVER;
  }
  return { writes, reads, deletes };
});
export const accessKey = z.string().max(256, 'must have at most 256 characters');
export const snapshotPlace = z.union([
  z.literal(''),
  z
    .string()
    .refine(
      (text) => text.startsWith('/') || S3_URL.test(text),
      'must be an absolute path, or s3://bucket/prefix',
    ),
]);
/** Private keys (identities) of the encryption tool age. */
export const snapshotKeys = z
  .string()
  .transform((text) => text.split(/[\s,]+/).filter((key) => key !== ''))
  .refine(
    (keys) => keys.every((key) => /^AGE-SECRET-KEY-(PQ-)?1[0-9A-Z]{58}$/.test(key)),
    'must be age identities, like AGE-SECRET-KEY-1…, separated by commas; `age-keygen` makes one',
  );
export const logFilter = z.string().superRefine((text, context) => {
  try {
    LogFilter.parse(text);
  } catch (error) {
    context.addIssue({ code: 'custom', message: `is wrong: ${reason(error)}` });
  }
});

export const smtpUrl = z.string().transform((text, context): SmtpServer | null => {
  const server = smtpServer(text);
  if (server === null && text !== '') {
    // The message does not quote the text, which may contain a password.
    context.addIssue({
      code: 'custom',
      message: 'must be like smtp://user:password@mail.example.com:587 or smtps://…:465, percent-encoded',
    });
  }
  return server;
});

export const sender = z
  .string()
  .refine(
    (text) => text === '' || isSender(text),
    'must be like cellar@example.com or Cellar <cellar@example.com>',
  );
export const appSenderList = commaList.refine(
  (each) => each.every((one) => isAddress(one.includes('@') ? one : `a@${one}`)),
  'must be domains such as example.com and addresses such as news@example.com, separated by commas',
);

export const httpUrl = (message: string) =>
  z.union([
    z.literal(''),
    z.string().refine((text) => /^https?:\/\/[^?#@]+$/.test(text) && URL.canParse(text), message),
  ]);
export const otlpHeaders = z.string().transform((text, context) => {
  const headers: Record<string, string> = {};
  for (const pair of text.split(',').filter((each) => each.trim() !== '')) {
    const [, name, value] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*([\x21-\x7e]*)\s*$/.exec(pair) ?? [];
    try {
      headers[name!.toLowerCase()] = decodeURIComponent(value!);
    } catch {
      // The message does not quote the value, which may be a secret.
      context.addIssue({ code: 'custom', message: 'must be like name=value,name=value, percent-encoded' });
      return z.NEVER;
    }
  }
  return headers;
});

export const aiModels = z.string().transform((text, context) => {
  const models: Record<string, string> = {};
  for (const pair of text.split(',').filter((each) => each.trim() !== '')) {
    const [, name, model] = /^\s*([^\s=,]+)\s*=\s*([^\s=,]+)\s*$/.exec(pair) ?? [];
    if (name === undefined || model === undefined) {
      context.addIssue({
        code: 'custom',
        message: `must be like @cf/meta/llama-3-8b-instruct=llama3,…, not '${pair}'`,
      });
      return z.NEVER;
    }
    models[name] = model;
  }
  return models;
});
