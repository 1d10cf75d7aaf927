// What becomes of every key of a Wrangler configuration here. A key missing from this table fails the deploy, as an
// unsupported one does.

/**
 * `used`: read, and acted on.
 * `quiet`: for other tools than a deploy; nothing is said.
 * `ignored`: does not apply here, for this reason; the deploy's log says so.
 * `leftOut`: not run here, for this reason; the deploy fails, unless build tools have added it by themselves to the
 * configuration they wrote: then it is left out, and the log says so.
 * `false`: names a binding or a feature that is not run here; the deploy fails.
 */
export type Treatment = 'used' | 'quiet' | { ignored: string } | { leftOut: string } | false;

const noAccount = { ignored: 'there is no Cloudflare account here' };
const noEdge = { ignored: 'apps run on this one machine' };
const ownTelemetry = { ignored: "logs and metrics are the runner's own" };

/** Keys at the top level. */
export const topLevelKeys: Record<string, Treatment> = {
  // The Worker and its bundling
  $schema: 'quiet',
  name: 'used',
  main: 'used',
  compatibility_date: 'used',
  compatibility_flags: 'used',
  vars: 'used',
  secrets: 'used',
  assets: 'used',
  build: 'used',
  define: 'used',
  alias: 'used',
  rules: 'used',
  minify: 'used',
  keep_names: 'used',
  tsconfig: 'used',
  jsx_factory: 'used',
  jsx_fragment: 'used',
  no_bundle: { ignored: 'modules are bundled all the same' },
  find_additional_modules: false,
  base_dir: false,
  preserve_file_names: false,
  upload_source_maps: 'quiet',
  python_modules: 'quiet',

  // Storage
  durable_objects: 'used',
  migrations: 'used',
  exports: 'used',
  d1_databases: 'used',
  kv_namespaces: 'used',
  r2_buckets: 'used',
  queues: 'used',
  workflows: false,
  triggers: 'used',

  // Neither storage nor calls
  ratelimits: 'used',
  unsafe: 'used',
  version_metadata: 'used',

  // Does not change what the Worker answers here
  account_id: noAccount,
  compliance_region: noAccount,
  workers_dev: noAccount,
  preview_urls: noAccount,
  previews: noAccount,
  keep_vars: { ignored: 'vars always come from this file' },
  routes: { ignored: 'add hostnames to the app as domains' },
  route: { ignored: 'add hostnames to the app as domains' },
  env: { ignored: 'the top level is deployed; the variable CLOUDFLARE_ENV names an environment' },
  placement: noEdge,
  limits: noEdge,
  cache: noEdge,
  observability: ownTelemetry,
  logpush: ownTelemetry,
  send_metrics: 'quiet',
  dependencies_instrumentation: 'quiet',
  dev: 'quiet',
  first_party_worker: noAccount,

  // Not run here
  access: false,
  addresses: false,
  agent_memory: false,
  ai: false,
  ai_search: false,
  ai_search_namespaces: false,
  analytics: false,
  analytics_engine_datasets: false,
  artifacts: false,
  browser: false,
  cloudchamber: false,
  connect: false,
  containers: false,
  data_blobs: false,
  dispatch_namespaces: false,
  flagship: false,
  hyperdrive: false,
  // Astro's adapter adds it to every project.
  images: { leftOut: 'the build added it, and images are not transformed here' },
  k2: false,
  logfwdr: false,
  media: false,
  mtls_certificates: false,
  pages_build_output_dir: false,
  pipelines: false,
  secrets_store_secrets: false,
  send_email: false,
  services: false,
  site: false,
  stream: false,
  streaming_tail_consumers: false,
  tail_consumers: false,
  text_blobs: false,
  unsafe_hello_world: false,
  vectorize: false,
  vpc_networks: false,
  vpc_services: false,
  wasm_modules: false,
  worker_loaders: false,
};

const localOnly = { ignored: 'bindings are always local to the runner' };

/** Keys below a top-level one. `[]` stands for each item of a list, `{}` for each value of an object. */
export const nestedKeys: Record<string, Record<string, Treatment>> = {
  assets: {
    directory: 'used',
    binding: 'used',
    html_handling: 'used',
    not_found_handling: 'used',
    run_worker_first: 'used',
    base_path: false,
  },
  build: { command: 'used', cwd: 'used', watch_dir: 'quiet' },
  secrets: { required: 'used' },
  triggers: { crons: 'used', events: false },
  queues: { producers: 'used', consumers: 'used' },
  // wrangler itself says of `delivery_delay` that it has no effect.
  'queues.producers[]': { binding: 'used', queue: 'used', delivery_delay: 'quiet', remote: localOnly },
  'queues.consumers[]': {
    queue: 'used',
    type: 'used',
    max_batch_size: 'used',
    max_batch_timeout: 'used',
    max_retries: 'used',
    dead_letter_queue: 'used',
    max_concurrency: 'used',
    visibility_timeout_ms: false,
    retry_delay: 'used',
  },
  durable_objects: { bindings: 'used', code_update_strategy: false },
  'durable_objects.bindings[]': { name: 'used', class_name: 'used', script_name: 'used', environment: false },
  'migrations[]': {
    tag: 'used',
    new_classes: 'used',
    new_sqlite_classes: 'used',
    renamed_classes: 'used',
    deleted_classes: 'used',
    transferred_classes: false,
  },
  'exports{}': {
    type: 'used',
    state: 'used',
    storage: 'used',
    renamed_to: 'used',
    cache: noEdge,
    container: false,
    transferred_to: false,
    transfer_from: false,
  },
  'd1_databases[]': {
    binding: 'used',
    database_id: 'used',
    database_name: 'used',
    migrations_dir: 'used',
    migrations_pattern: 'used',
    migrations_table: { ignored: 'migrations are recorded in d1_migrations' },
    preview_database_id: 'quiet',
    remote: localOnly,
    jurisdiction: noEdge,
    database_internal_env: 'quiet',
  },
  'kv_namespaces[]': { binding: 'used', id: 'used', preview_id: 'quiet', remote: localOnly },
  'r2_buckets[]': {
    binding: 'used',
    bucket_name: 'used',
    preview_bucket_name: 'quiet',
    jurisdiction: noEdge,
    local_dev: 'quiet',
    remote: localOnly,
  },
  'ratelimits[]': { name: 'used', namespace_id: 'used', simple: 'used' },
  unsafe: { bindings: 'used', metadata: false, capnp: false },
  'unsafe.bindings[]': { name: 'used', type: 'used', namespace_id: 'used', simple: 'used', dev: 'quiet' },
  version_metadata: { binding: 'used' },
  'rules[]': { type: 'used', globs: 'used', fallthrough: 'used' },
};
