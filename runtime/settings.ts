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
      '`embedded`: the edge speaks HTTP. `caddy`: Caddy, which must be installed, receives the requests for the edge, and the edge port speaks HTTPS.',
    schema: z.enum(['embedded', 'caddy'], 'must be embedded or caddy'),
  },
  RUNNER_EDGE_HTTP_PORT: {
    default: '0',
    meaning: 'With Caddy: a port of plain HTTP that sends browsers to HTTPS and answers ACME. 0: none.',
    schema: port,
  },
  RUNNER_DATA_DIR: {
    default: '.cellar',
    meaning: `Directory of all state of Cellar. Only one host can use it at a time. Its full path has at most ${DATA_DIRECTORY_MAX} bytes.`,
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
      '`on`: a custom hostname is served once its DNS points to this machine, or a record `TXT _cellar.<hostname>` names the app. `off`: a custom hostname is served at once. Empty: off while the base domain is `localhost`.',
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
      'Origin of an external control UI, which then handles sign-in and answers `/internal/git-auth`. Empty: Cellar serves its own control UI at the base domain.',
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
      '`on`: a git push to a slug that no app has creates the app, for the account of the key and within its quota. `off`: the push is refused with a message that says how to create the app. Empty: on while the base domain is `localhost`.',
    schema: z.enum(['', 'on', 'off'], 'must be on or off'),
  },
  RUNNER_SMTP_URL: {
    secret: true,
    default: '',
    meaning:
      'Mail server that sends invites, links for new passwords, alerts by e-mail, and the e-mails that apps send with `send_email` bindings, such as `smtp://user:password@mail.example.com:587` or `smtps://…:465`. User and password are percent-encoded. With `smtp:`, the password is sent only over STARTTLS, or to this machine. Empty: no e-mail is sent. Links are shown instead, and `send()` of apps fails.',
    schema: smtpUrl,
  },
  RUNNER_SMTP_FROM: {
    default: '',
    meaning: 'Sender of the e-mails of Cellar itself, such as invites: `Cellar <cellar@example.com>`.',
    schema: sender,
  },
  RUNNER_SMTP_APP_SENDERS: {
    default: '',
    meaning:
      'Domains and addresses that apps with a `send_email` binding may send from by the mail server of RUNNER_SMTP_URL, such as `example.com, news@example.org`, separated by commas. Empty: the domain of RUNNER_SMTP_FROM. The address of RUNNER_SMTP_FROM itself is for Cellar alone, unless it is named here.',
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
    meaning: 'Client id that the provider of RUNNER_OIDC_URL gave Cellar.',
    schema: z.string().max(500, 'must have at most 500 characters'),
  },
  RUNNER_OIDC_CLIENT_SECRET: {
    secret: true,
    default: '',
    meaning: 'Client secret that the provider gave Cellar together with RUNNER_OIDC_CLIENT_ID.',
    schema: z.string().max(2000, 'must have at most 2000 characters'),
  },
  RUNNER_OIDC_NAME: {
    default: 'single sign-on',
    meaning: 'What the control UI calls the provider: “Sign in with …”.',
    schema: z.string().max(60, 'must have at most 60 characters'),
  },
  RUNNER_OIDC_SCOPES: {
    default: 'openid email profile',
    meaning:
      'Scopes that Cellar asks the OpenID Connect provider for, separated by spaces. Many providers need one more for groups.',
    schema: z
      .string()
      .regex(
        /^(?=.*\bopenid\b)(?=.*\bemail\b)[\x21-\x7e]+( [\x21-\x7e]+)*$/,
        'must be scopes separated by spaces, with openid and email',
      ),
  },
  RUNNER_OIDC_GROUPS_CLAIM: {
    default: 'groups',
    meaning: 'Name of the claim of OpenID Connect that has the groups of a person.',
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
      'Private addresses and CIDR ranges, separated by commas, that apps, webhooks of alerts and imports of Git repositories may reach. Empty: they reach public addresses only. For apps, a range does not include this machine and the metadata services of cloud providers. To open these, name their single address, or a range within `127.0.0.0/8` or `169.254.0.0/16`.',
    schema: addressRanges,
  },
  RUNNER_AI_URL: {
    default: '',
    meaning:
      'The OpenAI-compatible server that answers the `ai` bindings of apps, such as `http://127.0.0.1:11434/v1` for Ollama. Empty: none, and `run()` fails.',
    schema: httpUrl('must be like http://127.0.0.1:11434/v1, without a query or a password'),
  },
  RUNNER_AI_KEY: {
    secret: true,
    default: '',
    meaning: 'Bearer token for the server of RUNNER_AI_URL. No app sees it. Empty: none is sent.',
    schema: z.string().regex(/^[\x21-\x7e]*$/, 'must have printable characters without spaces'),
  },
  RUNNER_AI_MODELS: {
    default: '',
    meaning:
      'Names of models at the server of RUNNER_AI_URL that differ from the names that apps use, such as `@cf/meta/llama-3-8b-instruct=llama3:8b`, separated by commas.',
    schema: aiModels,
  },
  RUNNER_BROWSER: {
    default: '',
    meaning:
      'Path of Chromium, which `browser` bindings of apps start, such as `/usr/bin/chromium` of Debian. Empty: none, and `launch()` fails.',
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
      'Socket of Podman or Docker for the `containers` of apps, such as `unix:///run/podman/podman.sock`. Apps may run every image of this engine. Empty: apps have no containers, and `ctx.container` is undefined.',
    schema: engineSocket,
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: '',
    meaning:
      'OTLP/HTTP endpoint to which Cellar sends spans, logs and metrics of apps, such as `http://127.0.0.1:4318`. Empty: none.',
    schema: httpUrl(
      'must be like http://127.0.0.1:4318 or https://example.com/otlp, without a query or a password',
    ),
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    secret: true,
    default: '',
    meaning:
      'Headers that are sent to OTEL_EXPORTER_OTLP_ENDPOINT, such as `authorization=Bearer%20abc,x-team=one`: values percent-encoded.',
    schema: otlpHeaders,
  },
  SERVICE_EDGE_RPM: {
    default: '1800',
    meaning:
      "Requests per minute from one visitor (an IPv4 address or an IPv6 /64) to one site at the edge. An app's own setting `clientRpm` replaces this limit. 0: no limit.",
    schema: perMinute,
  },
  SERVICE_EDGE_GIT_RPM: {
    default: '120',
    meaning:
      'Requests per minute from one visitor (an IPv4 address or an IPv6 /64) to the git host. 0: no limit.',
    schema: perMinute,
  },
  SERVICE_EDGE_APP_RPM: {
    default: '0',
    meaning:
      "Requests per minute to one app from all visitors. An app's own setting `appRpm` replaces this limit. 0: no limit.",
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
      'Requests per minute from one client that the sign-in library accepts at `/api/auth`. 0: no limit.',
    schema: perMinute,
  },
  RUNNER_MAX_APPS_PER_USER: {
    default: '10',
    meaning: 'Maximum number of apps that one account may own.',
    schema: integer(0, 1_000_000),
  },
  RUNNER_MAX_SCRIPTS_PER_USER: {
    default: '1000',
    meaning:
      'Maximum number of scripts that one account may have in its dispatch namespaces. They do not count for `RUNNER_MAX_APPS_PER_USER`. An account that may own no apps may have no scripts.',
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
      'Maximum MiB of data that one app may keep in its Durable Objects, databases, KV and queues. An app that keeps more is stopped, and its `last_error` says why. 0: no limit.',
    schema: integer(0, 16_777_216),
  },
  RUNNER_FLEET_ASSET_CACHE_MB: {
    default: '64',
    meaning:
      'MiB of responses that the Cache API (`caches`) keeps for each app on the disk. The least recently used responses are removed first. 0: nothing is cached.',
    schema: integer(0, 1_048_576),
  },
  RUNNER_BUILD_MAX_MB: {
    default: '2048',
    meaning:
      'Maximum MiB of the files of a build, without its caches. A build also needs this much free disk space in addition to `RUNNER_DISK_FLOOR_MB`. A build that has more, or finds less space, is ended.',
    schema: integer(1, 1_048_576),
  },
  RUNNER_BUILD_CACHE_MB: {
    default: '1024',
    meaning:
      'MiB of caches that builds of an app keep for the next one: those of package managers, and installed packages. If a build leaves more, Cellar removes whole caches, the largest first. 0: no caches are kept.',
    schema: integer(0, 1_048_576),
  },
  RUNNER_BUILD_MEMORY_MB: {
    default: '',
    meaning:
      'MiB of memory for install and build steps. Steps that run at the same time share it, but each may use at least 2048, or all of it if it is less. A step that needs more is ended. Without control groups, Cellar measures the memory of steps only twice a second. Empty: half of the memory of the machine or container, at least 2048.',
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
      'Whether traces show what requests waited for: storage, objects, queues, services, AI and outgoing requests. A change applies to an app at the next start of its process.',
    schema: z.enum(['on', 'off'], 'must be on or off'),
  },
  RUNNER_CRON_SECONDS: {
    default: 'off',
    meaning:
      'Whether crons may have a field for seconds in front of the five others, such as `*/5 * * * * *`. Cloudflare has no such crons. An app with a cron every few seconds never hibernates.',
    schema: z.enum(['on', 'off'], 'must be on or off'),
  },
  RUNNER_FLEET_LOG: {
    default: 'error,celld=warn',
    meaning:
      "Which of Cellar's own lines appear in an app's log: a level (`off`, `error`, `warn`, `info`, `debug`) for all targets, and after commas levels for single targets, such as `celld=warn`. The targets are `celld` (the supervisor of the app's process), `workerd` (the runtime of the app) and `build` (its deploys).",
    schema: logFilter,
  },
  RUNNER_CELL_MAX_MB: {
    default: '512',
    meaning:
      'Maximum memory of the process of one app, in MiB. Above it, the process is restarted, and `last_error` says so.',
    schema: integer(64, 1_048_576),
  },
  RUNNER_CELL_CPU_MAX_S: {
    default: '300',
    meaning:
      'Maximum CPU time without a pause, in seconds, that `limits.cpu_ms` in the Wrangler configuration of an app can set. Without `limits.cpu_ms`, an app may use 30 seconds at most. An app that uses more than its limit is restarted.',
    schema: integer(1, 86_400),
  },
  RUNNER_FLEET_MAX_RSS_MB: {
    default: '0',
    meaning:
      'Maximum memory of the whole container, in MiB. Above it, apps that use more than their share (and 64 MiB) hibernate when other apps must start. Hibernated apps answer 503 until memory is free. If that does not free enough, all apps that must start answer 503. 0: 80 % of the container.',
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
    meaning:
      '[Bucket](bucket.md) for the data that must survive the loss of this machine, as `s3://bucket/prefix`. Empty: none.',
    schema: z.union([z.literal(''), s3Url]),
  },
  RUNNER_BUCKET_ENDPOINT: {
    default: '',
    meaning:
      'URL of the store of RUNNER_BUCKET, without the bucket, such as `https://storage.example.com`. Empty: Amazon S3.',
    schema: httpUrl('must be like https://storage.example.com'),
  },
  RUNNER_BUCKET_REGION: {
    default: 'us-east-1',
    meaning: 'Region of the bucket of RUNNER_BUCKET; `auto` for R2.',
    schema: region,
  },
  RUNNER_BUCKET_ACCESS_KEY: {
    default: '',
    meaning: 'Id of the access key of the bucket of RUNNER_BUCKET.',
    schema: accessKey,
  },
  RUNNER_BUCKET_SECRET_KEY: {
    secret: true,
    default: '',
    meaning: 'Secret of the access key of the bucket of RUNNER_BUCKET.',
    schema: accessKey,
  },
  RUNNER_BUCKET_PRICES: {
    default: '',
    meaning:
      'Prices of the store of RUNNER_BUCKET, in US dollars per million requests, such as `writes=4.50,reads=0.36`. Lists are writes. Deletes are free without `deletes=`. [Cellar estimates](bucket.md#what-it-costs) the costs of a month. Empty: the list prices of Cloudflare R2 for a bucket there, no estimate for other stores.',
    schema: bucketPrices,
  },
  RUNNER_BUCKET_CACHE_MB: {
    default: '10240',
    meaning:
      'Maximum MiB on this disk for repositories and releases of apps in the bucket. Above it, the least recently used are removed from the disk; their next use loads them again.',
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
      'Private IP address, with a port if it is not 8790, at which [the other hosts](several-machines.md) of this Cellar reach this one. The next higher port is used too. Empty: this is the only host.',
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
      'Hours between verifications, which read everything that snapshots need; may be a fraction. Each verification reads the whole store once. 0: none.',
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
      'URL of the store of the bucket of snapshots, without the bucket, such as `https://storage.example.com`. Empty: Amazon S3.',
    schema: httpUrl('must be like https://storage.example.com'),
  },
  RUNNER_SNAPSHOT_REGION: {
    default: 'us-east-1',
    meaning: 'Region of the bucket of snapshots.',
    schema: region,
  },
  RUNNER_SNAPSHOT_ACCESS_KEY: {
    default: '',
    meaning: 'Id of the access key of the bucket of snapshots.',
    schema: accessKey,
  },
  RUNNER_SNAPSHOT_SECRET_KEY: {
    secret: true,
    default: '',
    meaning: 'Secret of the access key of the bucket of snapshots.',
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
      'Number of hourly snapshots that are kept in addition to `RUNNER_SNAPSHOT_KEEP`, so that an app can return to any of these hours. 0: none are taken; nor are they when `RUNNER_SNAPSHOT_EVERY_H` is 0.',
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
    meaning: 'Seconds that a request waits for its app to start; then the request gets 503.',
    schema: integer(1, 3_600),
  },
} as const satisfies Record<string, Setting>;
