// How Cellar treats each key of a Wrangler configuration. The deploy warns about a key that these tables lack.

/**
 * `used`: the deploy reads the key.
 * `quiet`: the key is for other tools, or without effect; the deploy says nothing.
 * `ignored`: the key does not apply here, for this reason; the log says so.
 * `instead`: the key is not available here. The deploy warns and says what to do instead. A binding throws when used.
 * `false`: like `instead`, but without advice.
 */
export type KeyHandling = 'used' | 'quiet' | { ignored: string } | { instead: string } | false;

const noAccount = { ignored: 'there is no Cloudflare account here' };
const noEdge = { ignored: 'apps run on this one machine' };
const ownTelemetry = { ignored: 'Cellar keeps logs and metrics of each app itself' };

const container = {
  instead: 'run the container on a server of its own, and call it with fetch() at its public address',
};
const blob = { instead: 'import the file in the Worker' };

/** Keys at the top level. */
export const topLevelKeys: Record<string, KeyHandling> = {
  // The Worker and its bundling
  $schema: 'quiet',
  name: 'used',
  main: 'used',
  pages_build_output_dir: 'used',
  compatibility_date: 'used',
  compatibility_flags: 'used',
  vars: 'used',
  secrets: 'used',
  assets: 'used',
  site: 'used',
  build: 'used',
  define: 'used',
  alias: 'used',
  rules: 'used',
  minify: 'used',
  keep_names: 'used',
  tsconfig: 'used',
  jsx_factory: 'used',
  jsx_fragment: 'used',
  no_bundle: { ignored: 'Cellar always bundles modules' },
  find_additional_modules: 'used',
  base_dir: 'used',
  preserve_file_names: 'quiet',
  upload_source_maps: 'quiet',
  python_modules: 'quiet',

  // Storage
  durable_objects: 'used',
  migrations: 'used',
  exports: 'used',
  d1_databases: 'used',
  kv_namespaces: 'used',
  r2_buckets: 'used',
  vectorize: 'used',
  queues: 'used',
  workflows: 'used',
  triggers: 'used',

  // Rate limits, other Workers, secrets and certificates
  ratelimits: 'used',
  unsafe: 'used',
  version_metadata: 'used',
  worker_loaders: 'used',
  services: 'used',
  dispatch_namespaces: 'used',
  secrets_store_secrets: 'used',
  mtls_certificates: 'used',
  tail_consumers: 'used',

  // Services outside of the app and its storage
  ai: 'used',
  images: 'used',
  browser: 'used',
  containers: 'used',
  hyperdrive: 'used',
  analytics_engine_datasets: 'used',
  pipelines: 'used',
  send_email: 'used',

  // Mostly without effect here
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
  limits: 'used',
  cache: noEdge,
  observability: ownTelemetry,
  logpush: ownTelemetry,
  send_metrics: 'quiet',
  dependencies_instrumentation: 'quiet',
  dev: 'quiet',
  first_party_worker: noAccount,

  // Not available here
  access: false,
  addresses: false,
  agent_memory: false,
  ai_search: false,
  ai_search_namespaces: false,
  analytics: false,
  artifacts: false,
  cloudchamber: container,
  connect: false,
  data_blobs: blob,
  flagship: false,
  k2: false,
  logfwdr: false,
  media: false,
  stream: false,
  streaming_tail_consumers: {
    instead: 'name the app in "tail_consumers", and export a tail() handler there',
  },
  text_blobs: blob,
  unsafe_hello_world: false,
  vpc_networks: false,
  vpc_services: false,
  wasm_modules: blob,
};

const localOnly = { ignored: 'bindings are always local to the runner' };

/** Keys below a top-level key. `[]` stands for each item of a list, `{}` for each value of an object. */
export const nestedKeys: Record<string, Record<string, KeyHandling>> = {
  assets: {
    directory: 'used',
    binding: 'used',
    html_handling: 'used',
    not_found_handling: 'used',
    run_worker_first: 'used',
    base_path: 'used',
  },
  site: { bucket: 'used', 'entry-point': 'used', include: 'used', exclude: 'used' },
  build: { command: 'used', cwd: 'used', watch_dir: 'quiet' },
  secrets: { required: 'used' },
  triggers: { crons: 'used', events: false },
  queues: { producers: 'used', consumers: 'used' },
  // wrangler itself warns that `delivery_delay` has no effect.
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
    migrations_table: 'used',
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
  'vectorize[]': { binding: 'used', index_name: 'used', remote: localOnly },
  'workflows[]': {
    binding: 'used',
    name: 'used',
    class_name: 'used',
    script_name: 'used',
    limits: 'used',
    default_retention: 'used',
    schedules: { instead: 'create instances in scheduled(), with "triggers.crons"' },
    concurrency: { ignored: 'the number of instances that run at once has no limit' },
    jurisdiction: noEdge,
    remote: localOnly,
  },
  'ratelimits[]': { name: 'used', namespace_id: 'used', simple: 'used' },
  unsafe: { bindings: 'used', metadata: false, capnp: false },
  'unsafe.bindings[]': { name: 'used', type: 'used', namespace_id: 'used', simple: 'used', dev: 'quiet' },
  version_metadata: { binding: 'used' },
  'worker_loaders[]': { binding: 'used' },
  limits: { cpu_ms: 'used', subrequests: { ignored: 'an app may make as many requests as it likes' } },
  'services[]': {
    binding: 'used',
    service: 'used',
    environment: { instead: 'name the app of that environment as "service"' },
    entrypoint: 'used',
    props: 'used',
    remote: localOnly,
    cross_account_grant: false,
  },
  'secrets_store_secrets[]': { binding: 'used', store_id: 'used', secret_name: 'used', remote: localOnly },
  'mtls_certificates[]': { binding: 'used', certificate_id: 'used', remote: localOnly },
  'dispatch_namespaces[]': { binding: 'used', namespace: 'used', outbound: 'used', remote: localOnly },
  'tail_consumers[]': {
    service: 'used',
    environment: { instead: 'name the app of that environment as "service"' },
  },
  'analytics_engine_datasets[]': { binding: 'used', dataset: 'used', remote: localOnly },
  'pipelines[]': { binding: 'used', pipeline: 'used', stream: 'used', remote: localOnly },
  'hyperdrive[]': { binding: 'used', id: 'used', localConnectionString: 'quiet', remote: localOnly },
  'send_email[]': {
    name: 'used',
    destination_address: 'used',
    allowed_destination_addresses: 'used',
    allowed_sender_addresses: 'used',
    remote: localOnly,
  },
  ai: { binding: 'used', remote: localOnly, staging: 'quiet' },
  images: { binding: 'used', remote: localOnly },
  browser: { binding: 'used', remote: localOnly },
  'containers[]': {
    name: 'quiet',
    class_name: 'used',
    image: 'used',
    max_instances: 'used',
    instance_type: 'used',
    // Wrangler adds this key itself.
    image_build_context: 'quiet',
    rollout_active_grace_period: noEdge,
    rollout_kind: noEdge,
    rollout_step_percentage: noEdge,
    scheduling_policy: noEdge,
    constraints: noEdge,
  },
  'rules[]': { type: 'used', globs: 'used', fallthrough: 'used' },
};

/** Returns the warning about a key that is not available here. @param key with its place, such as `services.environment` */
export function notAvailable(key: string, treatment: KeyHandling | undefined): string {
  const advice = typeof treatment === 'object' && 'instead' in treatment ? `: ${treatment.instead}` : '';
  return `"${key}" is not available here${advice}`;
}

/** Returns what to use in place of an unsupported key; `null` without such advice. */
export function alternativeTo(key: string): string | null {
  const treatment = topLevelKeys[key];
  return typeof treatment === 'object' && 'instead' in treatment ? treatment.instead : null;
}

/** Returns the top-level key for a binding type of Cloudflare's API: mostly its plural. Returns `type` when no key fits. */
export function keyOfType(type: string): string {
  return [type, `${type}s`, `${type}_datasets`].find((key) => key in topLevelKeys) ?? type;
}
