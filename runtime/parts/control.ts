// The parts around the control plane: its process and its host API, the outbox, and the control UI.
import { bucketPrices } from '../bucket/proxy/prices.ts';
import { CONTROL, controlSocket, signInSocket } from '../control/config.ts';
import { Control } from '../control/control-plane.ts';
import { hostService } from '../control/host-service.ts';
import type { Outbox } from '../control/outbox.ts';
import { pushes } from '../control/pushes.ts';
import { LiveStreams } from '../control/routes/live-streams.ts';
import { keptSecret } from '../disk/data-directory.ts';
import { DomainChecks } from '../edge/domain-checks.ts';
import { CallsElsewhere } from '../hosts/calls-elsewhere.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { log } from '../log.ts';
import { LoopDelay } from '../resources/loop-delay.ts';
import { compiledDirectory } from '../threads/compile-cache.ts';
import { Ui } from '../ui/ui.ts';
import { controlVariables, uiVariables } from '../variables.ts';
import type { AppParts } from './apps.ts';
import type { Base } from './base.ts';
import type { DeployParts } from './deploys.ts';
import type { ObservabilityParts } from './observability.ts';

/** Makes these parts. @param onRestart called after the control plane's process was restarted */
export function makeControl(
  base: Base,
  observability: ObservabilityParts,
  appParts: AppParts,
  deploys: DeployParts,
  outbox: Outbox,
  hosts: Hosts | null,
  onRestart: () => void,
) {
  const { config, paths, store, disk, known, secret, token, users, workerd } = base;
  const { requests, previews } = deploys;
  const address = config.RUNNER_ADDRESS;
  const { apps, storage } = appParts;
  const loopDelay = new LoopDelay();
  const control = new Control({
    directory: paths.control,
    bundles: compiledDirectory(),
    workerd,
    trash: paths.trash,
    cluster:
      base.bucket?.cluster(
        CONTROL,
        (words) => log('warn', `the control plane in the bucket: ${words}`),
        address === null ? undefined : { host: address.host, port: address.port + 1 },
      ) ?? null,
    secret,
    onRestart,
    variables: () => controlVariables(config, known.addresses!, token, base.homes?.self),
    host: hostService({
      ...observability,
      ...appParts,
      ...deploys,
      secret,
      store,
      paths,
      disk,
      secrets: base.secrets,
      loopDelay,
      streams: new LiveStreams(),
      controlPlane: () => ({ answers: control.answers, restarts: control.restarts }),
      outbox,
      elsewhere: hosts && new CallsElsewhere(hosts),
      bucket: base.bucket,
      bucketPrices: bucketPrices(config),
      storageLimits: storage,
      domains: new DomainChecks({
        baseDomain: config.RUNNER_BASE_DOMAIN,
        certificates: config.RUNNER_EDGE === 'caddy' ? paths.caddy : null,
      }),
      users,
      storageNames: (appId) => store.apps.storageNames(appId),
      controlUi: { url: config.RUNNER_UI_URL, token },
      onPush: pushes({ store, apps, requests, previews, outbox, urlOf: (slug) => base.urlOf(slug)! }),
    }),
  });
  const ui =
    config.RUNNER_UI_URL === ''
      ? new Ui({
          directory: paths.ui,
          databaseSocket: signInSocket(paths.control),
          apiSocket: controlSocket(paths.control),
          isConnected: config.RUNNER_OIDC_URL !== null,
          workerd,
          variables: () =>
            uiVariables(config, known.addresses!, { token, secret, signIn: keptSecret(paths.signInKey) }),
        })
      : null;
  return { control, ui, loopDelay };
}
