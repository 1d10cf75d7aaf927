// Every setting, declared once: name, default, meaning and schema. `docs/settings.md` is generated from this list.
import { z } from 'zod';
import { DATA_DIRECTORY_MAX } from './disk/data-directory.ts';
import {
  accessKey,
  addressRanges,
  aiModels,
  appSenderList,
  browserPath,
  browserUrl,
  bucketPrices,
  clusterKey,
  dataDirectory,
  decimal,
  domain,
  engineSocket,
  hostAddress,
  httpUrl,
  integer,
  logFilter,
  mailPort,
  origin,
  origins,
  otlpHeaders,
  paths,
  perMinute,
  port,
  region,
  s3Url,
  sender,
  smtpUrl,
  snapshotKeys,
  snapshotPlace,
  tcpPorts,
  token,
} from './setting-kinds.ts';
import { discoveryUrl, groupRoles } from './ui/provider-settings.ts';

export interface Setting {
  default: string;
  meaning: string;
  schema: z.ZodType<unknown, string>;
  /** Whether lists of the settings leave out the value. */
  secret?: true;
}

export const settings = {
  RUNNER_PORT: {
    default: '8080',
    meaning: 'Port of the API, on loopback. 0 picks a free one.',
    schema: port,
  },
  RUNNER_EDGE_PORT: {
    default: '8787',
    meaning:
      'Port of the edge, where apps answer. On loopback while the base domain is `localhost`. 0 picks a free one.',
    schema: port,
  },
  RUNNER_EDGE: {
    default: 'embedded',
    meaning:
      '`embedded`: the edge speaks HTTP. `caddy`: Caddy, which must be installed, stands in front, and the edge port speaks HTTPS.',
    schema: z.enum(['embedded', 'caddy'], 'must be embedded or caddy'),
  },
  RUNNER_EDGE_HTTP_PORT: {
    default: '0',
    meaning: 'With Caddy: a port of plain HTTP that sends browsers to HTTPS and answers ACME. 0: none.',
    schema: port,
  },
  RUNNER_DATA_DIR: {
    default: '.cellar',
    meaning: `Directory of all state; one host at a time. Its full path has at most ${DATA_DIRECTORY_MAX} bytes.`,
    schema: dataDirectory,
  },
  RUNNER_DRAIN_S: {
    default: '10',
    meaning:
      'Seconds from a SIGTERM until Cellar ends. Requests in flight get this time minus three seconds, but at least half of it.',
    schema: integer(1, 3600),
  },
  RUNNER_BASE_DOMAIN: {
    default: 'localhost',
    meaning: 'Apps answer at `<slug>.<base>`, the API at `api.<base>`, git at `git.<base>`.',
    schema: domain,
  },
  RUNNER_DOMAIN_PROOF: {
    default: '',
    meaning:
      '`on`: a custom hostname is served once its DNS points to this machine, or a record `TXT _cellar.<hostname>` names the app. `off`: at once. Empty: off while the base domain is `localhost`.',
    schema: z.enum(['', 'on', 'off'], 'must be on or off'),
  },
  RUNNER_PUBLIC_ORIGIN: {
    default: '',
    meaning:
      'Scheme and port of printed URLs when another proxy is in front of Cellar, such as `https://example.com`. Empty: those of the edge.',
    schema: origin,
  },
  RUNNER_TOKEN: {
    secret: true,
    default: '',
    meaning:
      'Bearer token of the API, at least 16 characters. Empty on `localhost`: made at first boot, kept in `<data>/token`.',
    schema: token,
  },
  RUNNER_UI_URL: {
    default: '',
    meaning:
      'Origin of an outside control UI, which has sign-in then and answers `/internal/git-auth`. Empty: Cellar has its own at the base domain.',
    schema: origin,
  },
  RUNNER_CORS_ORIGINS: {
    default: '',
    meaning:
      'Origins, separated by commas, such as `https://example.com`, whose pages may call the API with a token from a browser. Empty: none.',
    schema: origins,
  },
  RUNNER_PUSH_TO_CREATE: {
    default: '',
    meaning:
      '`on`: a git push to a slug that no app has makes the app, for the account of the key and within its quota. `off`: it is refused, with the way to create the app. Empty: on while the base domain is `localhost`.',
    schema: z.enum(['', 'on', 'off'], 'must be on or off'),
  },
  RUNNER_SMTP_URL: {
    secret: true,
    default: '',
    meaning:
      'Mail server that sends invites, links for new passwords, alerts by e-mail, and what apps send by `send_email` bindings, such as `smtp://user:password@mail.example.com:587` (STARTTLS; without it no password is sent, but to this machine) or `smtps://…:465`; user and password percent-encoded. Empty: links are shown, and nothing is sent; `send()` says so.',
    schema: smtpUrl,
  },
  RUNNER_SMTP_FROM: {
    default: '',
    meaning: 'Sender of invites and links, such as `Cellar <cellar@example.com>`.',
    schema: sender,
  },
  RUNNER_SMTP_APP_SENDERS: {
    default: '',
    meaning:
      'Domains and addresses that apps with a `send_email` binding may send from by that server, such as `example.com, news@example.org`, separated by commas. Empty: the domain of RUNNER_SMTP_FROM. The address of RUNNER_SMTP_FROM itself is for Cellar alone, unless it is named here.',
    schema: appSenderList,
  },
  RUNNER_MAIL_PORT: {
    default: '',
    meaning:
      'Port at which Cellar receives e-mails for apps by SMTP; other mail servers send to port 25. Empty: none are received.',
    schema: mailPort,
  },
  RUNNER_MAIL_TLS_CERT: {
    default: '',
    meaning:
      'File with the certificate and its chain in PEM, by which received e-mails are encrypted (STARTTLS). It is read again every hour. Empty: a certificate that Cellar makes itself, which mail servers accept.',
    schema: z.string(),
  },
  RUNNER_MAIL_TLS_KEY: {
    default: '',
    meaning: 'File with the key of RUNNER_MAIL_TLS_CERT, in PEM.',
    schema: z.string(),
  },
  RUNNER_TCP_PORTS: {
    default: '',
    meaning:
      'TCP ports that apps may have for their `connect()` handlers, such as `20000-20100`. Cellar listens at all of them, on loopback while the base domain is `localhost`. Empty: none.',
    schema: tcpPorts,
  },
  RUNNER_OIDC_URL: {
    default: '',
    meaning:
      'Provider of OpenID Connect by which people sign in to the control UI: its issuer, such as `https://id.example.com/realms/team`, or the address of its discovery document. Its redirect address is `/api/auth/callback/oidc` of the control UI. Empty: none.',
    schema: discoveryUrl,
  },
  RUNNER_OIDC_CLIENT_ID: {
    default: '',
    meaning: 'The id that the provider gave Cellar.',
    schema: z.string().max(500, 'must have at most 500 characters'),
  },
  RUNNER_OIDC_CLIENT_SECRET: {
    secret: true,
    default: '',
    meaning: 'The secret that belongs to this id.',
    schema: z.string().max(2000, 'must have at most 2000 characters'),
  },
  RUNNER_OIDC_NAME: {
    default: 'single sign-on',
    meaning: 'What the control UI calls the provider: “Sign in with …”.',
    schema: z.string().max(60, 'must have at most 60 characters'),
  },
  RUNNER_OIDC_SCOPES: {
    default: 'openid email profile',
    meaning: 'Scopes that are asked for, separated by spaces. Many providers need one more for groups.',
    schema: z
      .string()
      .regex(
        /^(?=.*\bopenid\b)(?=.*\bemail\b)[\x21-\x7e]+( [\x21-\x7e]+)*$/,
        'must be scopes separated by spaces, with openid and email',
      ),
  },
  RUNNER_OIDC_GROUPS_CLAIM: {
    default: 'groups',
    meaning: "The claim that has a person's groups.",
    schema: z.string().regex(/^[\x21-\x7e]{1,200}$/, 'must be the name of a claim, such as groups'),
  },
  RUNNER_OIDC_ROLES: {
    default: '',
    meaning:
      'Roles on this machine by group, such as `admins=admin,developers=member,contractors=guest`. The first that fits counts, `*` fits everybody, and people without a role cannot sign in. Roles follow the groups at each sign-in. Empty: everybody at the provider is a member, and admins are made in Cellar.',
    schema: groupRoles,
  },
  RUNNER_OIDC_REQUIRED: {
    default: 'off',
    meaning: '`on`: people sign in by the provider only; passwords and passkeys are refused.',
    schema: z.enum(['on', 'off'], 'must be on or off'),
  },
  RUNNER_GEOIP_DB: {
    default: '',
    meaning:
      'Paths of databases in the format of MaxMind (MMDB), separated by commas, such as those of GeoLite2 City and ASN: `request.cf` gives apps the location of a client. They are read again when they change.',
    schema: paths,
  },
  RUNNER_TRUSTED_PROXIES: {
    default: '',
    meaning:
      'Addresses and CIDR ranges, separated by commas, of proxies whose `X-Forwarded-*` headers are believed. The client is the last address in `X-Forwarded-For` that is not among them.',
    schema: addressRanges,
  },
  RUNNER_EGRESS_ALLOW: {
    default: '',
    meaning:
      'Private addresses and CIDR ranges, separated by commas, that apps, webhooks of alerts and imports of Git repositories may reach. Without it they reach public addresses only. To apps a range does not open this machine and the metadata of providers: those are opened by an address of their own, or by a range within `127.0.0.0/8` or `169.254.0.0/16`.',
    schema: addressRanges,
  },
  RUNNER_AI_URL: {
    default: '',
    meaning:
      'The OpenAI-compatible server that `ai` bindings of apps ask, such as `http://127.0.0.1:11434/v1` for Ollama. Empty: none, and `run()` says so.',
    schema: httpUrl('must be like http://127.0.0.1:11434/v1, without a query or a password'),
  },
  RUNNER_AI_KEY: {
    secret: true,
    default: '',
    meaning: 'The bearer token for that server. No app sees it. Empty: none is sent.',
    schema: z.string().regex(/^[\x21-\x7e]*$/, 'must have printable characters without spaces'),
  },
  RUNNER_AI_MODELS: {
    default: '',
    meaning:
      'What that server calls models, where it does not have the name that apps use, such as `@cf/meta/llama-3-8b-instruct=llama3:8b`, separated by commas.',
    schema: aiModels,
  },
  RUNNER_BROWSER: {
    default: '',
    meaning:
      'Path of Chromium, which `browser` bindings of apps start, such as `/usr/bin/chromium` of Debian. Empty: none, and `launch()` says so.',
    schema: browserPath,
  },
  RUNNER_BROWSER_URL: {
    secret: true,
    default: '',
    meaning:
      'Instead of `RUNNER_BROWSER`: an endpoint of the Chrome DevTools Protocol that gives each connection a browser of its own, such as `ws://127.0.0.1:3000?token=…` of browserless. That endpoint then decides what pages may reach. Empty: none.',
    schema: browserUrl,
  },
  RUNNER_CONTAINER_ENGINE: {
    default: '',
    meaning:
      'Socket of Podman or Docker for the `containers` of apps, such as `unix:///run/podman/podman.sock`. Apps may run each of its images. Empty: none, and `ctx.container` is undefined.',
    schema: engineSocket,
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: '',
    meaning:
      'Spans, logs and figures of apps are sent to this OTLP/HTTP endpoint, such as `http://127.0.0.1:4318`. Empty: nowhere.',
    schema: httpUrl(
      'must be like http://127.0.0.1:4318 or https://example.com/otlp, without a query or a password',
    ),
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    secret: true,
    default: '',
    meaning:
      'Headers for that endpoint, such as `authorization=Bearer%20abc,x-team=one`: values percent-encoded.',
    schema: otlpHeaders,
  },
  SERVICE_EDGE_RPM: {
    default: '1800',
    meaning:
      "Requests per minute from one visitor (an IPv4 address or an IPv6 /64) to one site at the edge. An app's `clientRpm` comes before it. 0: no limit.",
    schema: perMinute,
  },
  SERVICE_EDGE_GIT_RPM: {
    default: '120',
    meaning: 'The same for the git host.',
    schema: perMinute,
  },
  SERVICE_EDGE_APP_RPM: {
    default: '0',
    meaning:
      "Requests per minute to one app from all visitors. An app's `appRpm` comes before it. 0: no limit.",
    schema: perMinute,
  },
  SERVICE_RATE_LIMIT_RPM: {
    default: '600',
    meaning:
      "Requests per minute from one client to the control UI's sign-in, and as many to its invites. 0: no limit.",
    schema: perMinute,
  },
  SERVICE_AUTH_RATE_LIMIT: {
    default: '600',
    meaning:
      'Requests per minute from one client that the sign-in library itself takes at `/api/auth`. 0: no limit.',
    schema: perMinute,
  },
  RUNNER_MAX_APPS_PER_USER: {
    default: '10',
    meaning: 'Apps that one account may own.',
    schema: integer(0, 1_000_000),
  },
  RUNNER_MAX_SCRIPTS_PER_USER: {
    default: '1000',
    meaning:
      'Scripts that one account may have in its dispatch namespaces. They do not count for `RUNNER_MAX_APPS_PER_USER`. An account that may own no apps may have none.',
    schema: integer(0, 1_000_000),
  },
  RUNNER_DISK_FLOOR_MB: {
    default: '1024',
    meaning:
      'MiB that must stay free on the disk of the data directory. With less, deploys and uploads are refused with 507, and caches and other files that Cellar can do without are removed.',
    schema: integer(1, 1_048_576),
  },
  RUNNER_APP_MAX_MB: {
    default: '10240',
    meaning:
      'MiB that one app may keep on the disk in its Durable Objects, databases, KV and queues. One that keeps more is stopped, and its `last_error` says why. 0: no limit.',
    schema: integer(0, 16_777_216),
  },
  RUNNER_FLEET_ASSET_CACHE_MB: {
    default: '64',
    meaning:
      'MiB of responses that the Cache API (`caches`) keeps for each app on the disk. The least recently used are removed first. 0: nothing is cached.',
    schema: integer(0, 1_048_576),
  },
  RUNNER_BUILD_MAX_MB: {
    default: '2048',
    meaning:
      'MiB that the files of a build may have, without its caches. A build also needs this much free disk space in addition to `RUNNER_DISK_FLOOR_MB`. Otherwise it is ended.',
    schema: integer(1, 1_048_576),
  },
  RUNNER_BUILD_CACHE_MB: {
    default: '1024',
    meaning:
      'MiB of caches that builds of an app keep for the next one: those of package managers, and installed packages. After a build that leaves more, whole caches are dropped, the largest first. 0 keeps none.',
    schema: integer(0, 1_048_576),
  },
  RUNNER_BUILD_MEMORY_MB: {
    default: '',
    meaning:
      'MiB of memory for install and build steps. Steps that run at once share it, and each may use at least 2048 of it. A step that needs more is ended. Without control groups, Cellar measures the memory of steps only twice a second. Empty: half of the memory of the machine or container, at least 2048.',
    schema: z.union([z.literal('').transform(() => null), integer(64, 16_777_216)]),
  },
  RUNNER_BUILD_TIMEOUT_S: {
    default: '1200',
    meaning: 'Each install, build and release command is ended after this many seconds.',
    schema: integer(1, 86_400),
  },
  RUNNER_FLEET_DEPLOY_POLL_S: {
    default: '300',
    meaning:
      'Seconds between checks of each app for a push that was accepted and never deployed, or whose deploy failed because the disk was full. The first check is at the start.',
    schema: integer(1, 86_400),
  },
  RUNNER_FLEET_IDLE_EVICT_S: {
    default: '120',
    meaning:
      'Seconds without an open request or WebSocket after which an app hibernates: its process ends, and the next request starts it. 0: never.',
    schema: integer(0, 31_536_000),
  },
  RUNNER_TRACE_CALLS: {
    default: 'on',
    meaning:
      'Whether traces show what requests waited for: storage, objects, queues, services, AI and outgoing requests. Apps get a change at the next start of their process.',
    schema: z.enum(['on', 'off'], 'must be on or off'),
  },
  RUNNER_CRON_SECONDS: {
    default: 'off',
    meaning:
      'Whether crons may have a field for seconds in front of the five others, such as `*/5 * * * * *`. Cloudflare has no such crons. With one of every few seconds an app never rests.',
    schema: z.enum(['on', 'off'], 'must be on or off'),
  },
  RUNNER_FLEET_LOG: {
    default: 'error,celld=warn',
    meaning:
      "Which of Cellar's own lines appear in an app's log: a level (`off`, `error`, `warn`, `info`, `debug`), and others for single targets: `celld` (the supervisor of its process), `workerd` (what runs it) and `build` (its deploys).",
    schema: logFilter,
  },
  RUNNER_CELL_MAX_MB: {
    default: '512',
    meaning:
      'Memory that the process of one app may use, in MiB. Above it, the process is restarted, and `last_error` says so.',
    schema: integer(64, 1_048_576),
  },
  RUNNER_CELL_CPU_MAX_S: {
    default: '300',
    meaning:
      'CPU time in seconds that an app may compute for without a pause, whatever `limits.cpu_ms` of its Wrangler configuration says. Without that it has 30 seconds. An app that goes over its limit is restarted.',
    schema: integer(1, 86_400),
  },
  RUNNER_FLEET_MAX_RSS_MB: {
    default: '0',
    meaning:
      'Memory that the whole container may use, in MiB. Above it, apps that use more than their share (and 64 MiB) hibernate when others must start. They answer 503 until memory is free. If that does not free enough, all apps that must start answer 503. 0: 80 % of the container.',
    schema: integer(0, 16_777_216),
  },
  RUNNER_SLEEP_AFTER_H: {
    default: '24',
    meaning: 'Hours without a request after which an app is put to sleep; may be a fraction. 0: never.',
    schema: decimal(0, 8_760),
  },
  RUNNER_SLEEP_SWEEP_S: {
    default: '3600',
    meaning: 'Seconds between searches for apps to put to sleep.',
    schema: integer(1, 86_400),
  },
  RUNNER_BUCKET: {
    default: '',
    meaning: '[Bucket](bucket.md) for what must survive this machine, as `s3://bucket/prefix`. Empty: none.',
    schema: z.union([z.literal(''), s3Url]),
  },
  RUNNER_BUCKET_ENDPOINT: {
    default: '',
    meaning:
      'URL of that bucket’s store, without the bucket, such as `https://storage.example.com`. Empty: Amazon S3.',
    schema: httpUrl('must be like https://storage.example.com'),
  },
  RUNNER_BUCKET_REGION: {
    default: 'us-east-1',
    meaning: 'Region of that bucket; `auto` for R2.',
    schema: region,
  },
  RUNNER_BUCKET_ACCESS_KEY: {
    default: '',
    meaning: 'Id of the access key of that bucket.',
    schema: accessKey,
  },
  RUNNER_BUCKET_SECRET_KEY: {
    secret: true,
    default: '',
    meaning: 'The secret of that key.',
    schema: accessKey,
  },
  RUNNER_BUCKET_PRICES: {
    default: '',
    meaning:
      'Prices of that bucket’s store, in US dollars per million requests, such as `writes=4.50,reads=0.36`. Lists are writes. Deletes are free without `deletes=`. [Cellar estimates](bucket.md#what-it-costs) what a month costs. Empty: the list price for Cloudflare R2, no estimate for other stores.',
    schema: bucketPrices,
  },
  RUNNER_BUCKET_CACHE_MB: {
    default: '10240',
    meaning:
      'MiB that repositories and releases of apps in the bucket may take on this disk. Above that, those not used for the longest time are removed; their next use loads them again.',
    schema: integer(0, 16_777_216),
  },
  RUNNER_STORAGE: {
    default: 'local',
    meaning:
      'Where new apps keep their data by default: `local` (this machine) or `bucket` (`RUNNER_BUCKET`).',
    schema: z.enum(['local', 'bucket'], 'must be local or bucket'),
  },
  RUNNER_CLUSTER_KEY: {
    secret: true,
    default: '',
    meaning:
      'Secret that the keys of all apps in the bucket derive from: 64 hexadecimal characters. Empty: made at the first start, kept in `<data>/cluster-key`.',
    schema: clusterKey,
  },
  RUNNER_ADDRESS: {
    default: '',
    meaning:
      'Private IP address, with a port if it is not 8790, at which [the other hosts](several-machines.md) of this Cellar reach this one. The port after it is used too. Empty: this is the only host.',
    schema: hostAddress,
  },
  RUNNER_SNAPSHOT_EVERY_H: {
    default: '24',
    meaning: 'Hours between automatic snapshots; may be a fraction. 0: none.',
    schema: decimal(0, 8_760),
  },
  RUNNER_SNAPSHOT_VERIFY_H: {
    default: '168',
    meaning:
      'Hours between verifications, which read everything that snapshots need; may be a fraction. Each reads the whole store once. 0: none.',
    schema: decimal(0, 8_760),
  },
  RUNNER_SNAPSHOT_URL: {
    default: '',
    meaning:
      'Where snapshots are kept: the absolute path of a directory, best on another disk, or `s3://bucket/prefix`. Empty: `snapshots/` in `RUNNER_BUCKET`, or without one `<data>/snapshots`.',
    schema: snapshotPlace,
  },
  RUNNER_SNAPSHOT_ENDPOINT: {
    default: '',
    meaning:
      'URL of that bucket’s store, without the bucket, such as `https://storage.example.com`. Empty: Amazon S3.',
    schema: httpUrl('must be like https://storage.example.com'),
  },
  RUNNER_SNAPSHOT_REGION: {
    default: 'us-east-1',
    meaning: 'Region of the bucket of snapshots.',
    schema: region,
  },
  RUNNER_SNAPSHOT_ACCESS_KEY: {
    default: '',
    meaning: 'Id of the access key of that bucket.',
    schema: accessKey,
  },
  RUNNER_SNAPSHOT_SECRET_KEY: {
    secret: true,
    default: '',
    meaning: 'The secret of that key.',
    schema: accessKey,
  },
  RUNNER_SNAPSHOT_KEY: {
    secret: true,
    default: '',
    meaning:
      'Key that snapshots are [encrypted](snapshots.md#encryption) with: an age identity, as `age-keygen` makes it. With several, separated by commas, the first one encrypts, and all decrypt. Empty: snapshots are not encrypted.',
    schema: snapshotKeys,
  },
  RUNNER_SNAPSHOT_KEEP: {
    default: '14',
    meaning:
      'Number of snapshots that are kept; older ones are removed. Snapshots taken before deleted classes lose their data are counted separately, with the same limit.',
    schema: integer(1, 10_000),
  },
  RUNNER_SNAPSHOT_HOURLY: {
    default: '24',
    meaning:
      'Number of hourly snapshots that are kept besides, so that an app can return to any of these hours. 0: none are taken; nor are they when `RUNNER_SNAPSHOT_EVERY_H` is 0.',
    schema: integer(0, 168),
  },
  RUNNER_SNAPSHOT_KEEP_DAYS: {
    default: '0',
    meaning: 'Days after which snapshots are removed; the newest is never removed. 0: no limit.',
    schema: integer(0, 36_500),
  },
  RUNNER_TELEMETRY_RETENTION_DAYS: {
    default: '30',
    meaning:
      'Days that metrics, devices, paths, referrers, spans, data points and the backlogs of live streams are kept. Grouped errors, events, users and insights are kept this long after their last change.',
    schema: integer(1, 3_650),
  },
  RUNNER_WAKE_CONCURRENCY: {
    default: '4',
    meaning: 'Maximum number of apps that start at the same time; others wait.',
    schema: integer(1, 1_000),
  },
  RUNNER_WAKE_TIMEOUT_S: {
    default: '120',
    meaning: 'Seconds that a request waits for its app to start; then it gets 503.',
    schema: integer(1, 3_600),
  },
} as const satisfies Record<string, Setting>;
