// The code of an app that keeps its data in the bucket. Its copy on the disk is a cache.
import { basename } from 'node:path';
import type { Layout } from '../../disk/data-directory.ts';
import type { S3Place } from '../place.ts';
import { BucketReleases } from './bucket-releases.ts';
import { BucketRepository } from './bucket-repository.ts';

export interface AppCodeOptions {
  place: S3Place;
  appId: string;
  paths: Pick<Layout, 'repository' | 'release' | 'builds'>;
  /** Resolves when the bucket may be used. @throws {Error} why it may not */
  ready: () => Promise<void>;
  /** Whether the app was deleted. */
  isDeleted: () => boolean;
}

export class AppCode {
  readonly repository: BucketRepository;
  readonly releases: BucketReleases;
  /** Brings a release to its directory, if it is not there. */
  readonly load = (directory: string): Promise<void> => this.releases.load(basename(directory));

  constructor({ place, appId, paths, ready, isDeleted }: AppCodeOptions) {
    this.repository = new BucketRepository({ place, appId, path: paths.repository(appId), ready, isDeleted });
    this.releases = new BucketReleases({
      ...{ place, appId, ready, isDeleted },
      directory: (deployId) => paths.release(appId, deployId),
      scratch: paths.builds,
    });
  }
}
