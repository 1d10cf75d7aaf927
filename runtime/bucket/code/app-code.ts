// The code of an app that keeps its data in the bucket. Its copy on the disk is a cache.
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

  constructor({ place, appId, paths, ready, isDeleted }: AppCodeOptions) {
    this.repository = new BucketRepository({ place, appId, path: paths.repository(appId), ready, isDeleted });
    this.releases = new BucketReleases({
      ...{ place, appId, ready, isDeleted },
      directory: (deployId) => paths.release(appId, deployId),
      scratch: paths.builds,
    });
  }
}
