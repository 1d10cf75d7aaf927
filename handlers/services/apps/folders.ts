// Deploys of built folders. The host stores the files, and detects whether they are a single-page app.
import { folderFault } from '../../contract/source/folder-files.ts';
import { Problem } from '../../problem.ts';
import type { Service } from '../types.ts';
import { nameOf, shownDeploy } from './deploys.ts';

const begin: Service<'deploys.begin_upload'> = async ({ host }, { id, manifest }) => {
  const message = folderFault(Object.keys(manifest));
  if (message !== null)
    throw new Problem('invalid_input', `manifest: ${message}.`, [{ path: 'manifest', message }]);
  const { session, buckets } = await host.call('POST /apps/:id/uploads', { id }, { body: { manifest } });
  return { upload: session, missing: buckets };
};

const send: Service<'deploys.upload_files'> = ({ host }, { id, upload, contents }) =>
  host.call('POST /apps/:id/uploads/:session', { id, session: upload }, { body: contents });

const finish: Service<'deploys.finish_upload'> = async (context, { id, upload, message }) => {
  const body = { message, author: await nameOf(context) };
  const words = { id, session: upload };
  return shownDeploy(await context.host.call('POST /apps/:id/uploads/:session/deploy', words, { body }));
};

export const folderServices = {
  'deploys.begin_upload': begin,
  'deploys.upload_files': send,
  'deploys.finish_upload': finish,
};
