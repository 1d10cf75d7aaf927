// The inputs and limits of a build.
import type { NamedOutside } from '../../../bundler/configuration/preflight.ts';
import type { BuildSettings } from '../../../handlers/contract/host/host-calls.ts';
import type { Isolation } from '../../isolation/isolation.ts';
import type { User } from '../../isolation/users.ts';
import type { StorageNames } from '../../storage/names.ts';
import type { DeployLog } from '../deploy/deploy-log.ts';
import type { CertificateOf, KeyOf } from './release.ts';

/** Build settings of an app whose owner has set none. */
export const NO_SETTINGS: BuildSettings = {
  root_directory: null,
  install_command: null,
  build_command: null,
  output_directory: null,
};

/** When an install's registry is checked, and the timeout of that check. */
export interface RegistryTimes {
  /** Time from the start of the install to the check, in ms. */
  afterMs: number;
  deadlineMs: number;
}

export interface BuildInput {
  deployId: string;
  appId: string;
  sha: string;
  /** The full name of the ref, such as `refs/heads/main`. */
  ref: string;
  /** The app's URL; `null` while unknown. */
  url: string | null;
  /** Path of the bare repository. */
  repository: string;
  /** A directory of this build alone: the worktree and the home of its commands. Deleted afterwards. */
  scratch: string;
  /** The path of the finished release. Its parent exists. */
  releaseDirectory: string;
  /** Kept between the builds of the app: the package managers' caches, and the packages of the last install. */
  cacheDirectory: string;
  /** The app's variables for the commands of a build. */
  env: Record<string, string>;
  settings: BuildSettings;
  /** The user that runs the commands of a build; `null`: the host's own user. */
  user: User | null;
  storage: StorageNames;
  /** Checks the other apps and queues that the configuration names, as `requireServices` does. @throws {BuildFailure} */
  requireOutside: (named: NamedOutside) => Promise<unknown>;
  /** Returns the unique key of another app's class. */
  keyOf: KeyOf;
  /** Finds a client certificate of the owner. */
  certificateOf: CertificateOf;
  /** The directory of the live release; null without one. */
  liveReleaseDirectory: string | null;
  /** Whether the release is a preview's: a preview has no crons. */
  isPreview: boolean;
  isolation: Isolation;
  limits: {
    /** Timeout of each command, and of each request to the bundler. */
    stepTimeoutMs: number;
    /** Maximum MiB of the commit's files, of the build's directory, and of the release's assets. */
    worktreeMb: number;
    /** Maximum MiB of the cache after the build; 0: no cache. */
    cacheMb: number;
    /** MiB of the disk that must stay free. */
    floorMb: number;
    /** MiB of memory for the commands of all builds together. */
    memoryMb: number;
  };
  /** When an install's registry is checked. Default: as in `registry-check.ts`. */
  registryTimes?: RegistryTimes;
  log: DeployLog;
  signal: AbortSignal;
}
