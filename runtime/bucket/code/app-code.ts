// The code of an app that keeps its data in the bucket. The copy on the disk is a cache.
import { basename } from 'node:path';
import type { Layout } from '../../disk/data-directory.ts';
import { BucketReleases } from './bucket-releases.ts';
import { BucketRepository } from './bucket-repository.ts';
import type { CodeFolderOptions } from './code-folder.ts';

export interface AppCodeOptions extends CodeFolderOptions {
  paths: Pick<Layout, 'repository' | 'release' | 'builds'>;
  isDeleted: () => boolean;
}

export class AppCode {
  readonly repository: BucketRepository;
  readonly releases: BucketReleases;
  /** Loads a release from the bucket into its directory, unless the directory exists. */
  readonly load = (directory: string): Promise<void> => this.releases.load(basename(directory));

  constructor({ paths, ...options }: AppCodeOptions) {
    const { appId } = options;
    this.repository = new BucketRepository({ ...options, path: paths.repository(appId) });
    this.releases = new BucketReleases({
      ...options,
      directory: (deployId) => paths.release(appId, deployId),
      scratch: paths.builds,
    });
  }
}
