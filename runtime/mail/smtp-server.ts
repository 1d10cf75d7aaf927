// The mail server of RUNNER_SMTP_URL.

/** Address and credentials of an SMTP server. */
export interface SmtpServer {
  host: string;
  port: number;
  /** Whether the connection starts with TLS. Otherwise STARTTLS is used if the server supports it, except when `isLocal`. */
  isSecure: boolean;
  /** Whether it runs on this machine, and is reached over loopback. */
  isLocal: boolean;
  user: string | null;
  password: string | null;
}

/** Reads `smtp://user:password@host:587` or `smtps://…:465`. @returns null if the text is not such a URL */
export function smtpServer(text: string): SmtpServer | null {
  const url = URL.parse(text);
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') return null;
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '') return null;
  const isSecure = url.protocol === 'smtps:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  try {
    return {
      host,
      port: url.port === '' ? (isSecure ? 465 : 587) : Number(url.port),
      isSecure,
      isLocal: /^(localhost|127\.\d+\.\d+\.\d+|::1)$/i.test(host),
      user: url.username === '' ? null : decodeURIComponent(url.username),
      password: url.password === '' ? null : decodeURIComponent(url.password),
    };
  } catch {
    return null;
  }
}

/** Returns whether a text is a valid sender: `a@b.example` or `Name <a@b.example>`. */
export function isSender(text: string): boolean {
  return /^(?:[\p{L}\p{N} .'&-]{1,60} <[\w.+-]{1,64}@[\w.-]{1,200}>|[\w.+-]{1,64}@[\w.-]{1,200})$/u.test(
    text,
  );
}
