// A folder of a bucket, with uploads by drag and drop.
import { useRef, useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type BucketObject, folderModel, nameOf } from '../../models/storage/bucket.ts';
import { cancel, goOn, rawUrl, type Upload, upload, uploads } from '../../models/storage/uploads.ts';
import { Button, Link, RemoveButton } from '../../parts/controls/button.tsx';
import { bytes } from '../../parts/format.ts';
import {
  IconArchive,
  IconDownload,
  IconFile,
  IconFolder,
  IconRefreshCw,
  IconUpload,
  IconX,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { ObjectDialog } from './bucket-object.tsx';

interface Props {
  app: string;
  bucket: string;
  /** The folder, such as `a/b/`; empty for the whole bucket. */
  prefix: string;
}
type Item = { folder: string } | BucketObject;

export default function Bucket({ app, bucket, prefix: path }: Props) {
  // A typed address may have no slash at the end.
  const prefix = path === '' || path.endsWith('/') ? path : `${path}/`;
  const model = useModel(() => folderModel(app, bucket, prefix));
  const { items } = model;
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const selected = queryOf('key');
  const coming = uploads.value.filter(
    (each) => each.app === app && each.bucket === bucket && each.key.startsWith(prefix),
  );
  const drop = (object: BucketObject) =>
    remove(items, object, `${nameOf(object.key)} is deleted`, () => model.delete(object.key));
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    upload({ app, bucket, prefix }, [...(event.dataTransfer?.files ?? [])]);
  };
  return (
    <>
      <Head title={bucket}>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            upload({ app, bucket, prefix }, [...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = '';
          }}
        />
        <Button look="primary" onClick={() => input.current!.click()}>
          <IconUpload /> Upload files
        </Button>
      </Head>
      <Path {...{ app, bucket, prefix }} />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the button above does the same by keyboard */}
      <div
        class={over ? 'panel drop over' : 'panel drop'}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={onDrop}
      >
        {coming.length > 0 && (
          <ul class="uploads" aria-label="Uploads">
            {coming.map((each) => (
              <OneUpload key={each.id} upload={each} name={each.key.slice(prefix.length)} />
            ))}
          </ul>
        )}
        <Listed<Item>
          of={items}
          label={prefix === '' ? 'Objects' : `Objects in ${prefix}`}
          empty={
            <Empty title={prefix === '' ? 'No objects yet' : 'Nothing in this folder'} icon={IconArchive}>
              <p>Drop files here, or let the app put them.</p>
            </Empty>
          }
          columns={[
            {
              name: 'Name',
              wide: true,
              cell: (item) =>
                'folder' in item ? (
                  <span class="row nowrap">
                    <IconFolder />
                    <Link to={{ name: 'bucket', app, bucket, prefix: item.folder }} class="main-cell cut">
                      {nameOf(item.folder.slice(0, -1)) || '/'}
                    </Link>
                  </span>
                ) : (
                  <span class="row nowrap">
                    <IconFile />
                    <button
                      type="button"
                      class="link cut"
                      onClick={() => setQuery({ key: item.key }, { push: true })}
                    >
                      {nameOf(item.key) || item.key}
                    </button>
                  </span>
                ),
            },
            {
              name: 'Put',
              cell: (item) => ('folder' in item ? null : <Time at={item.uploaded_at} />),
            },
            {
              name: 'Size',
              number: true,
              cell: (item) => ('folder' in item ? null : bytes(item.size)),
            },
            {
              name: 'What to do',
              silent: true,
              cell: (item) =>
                'folder' in item ? null : (
                  <span class="row-actions">
                    <Download url={rawUrl(app, bucket, item.key)} name={nameOf(item.key)} />
                    <RemoveButton label={`Delete ${nameOf(item.key)}`} onClick={() => drop(item)} />
                  </span>
                ),
            },
          ]}
        />
        {over && <p class="drop-words">Drop to upload into {prefix === '' ? bucket : prefix}</p>}
      </div>
      {selected !== '' && (
        <ObjectDialog
          key={selected}
          {...{ app, bucket }}
          name={selected}
          onClose={() => setQuery({ key: '' })}
        />
      )}
    </>
  );
}

function Download({ url, name }: { url: string; name: string }) {
  return (
    <a
      class="button quiet short square"
      href={url}
      download={name}
      aria-label={`Download ${name}`}
      title={`Download ${name}`}
    >
      <IconDownload />
    </a>
  );
}

function Path({ app, bucket, prefix }: Props) {
  if (prefix === '') return null;
  const folders = prefix.slice(0, -1).split('/');
  return (
    <nav class="path" aria-label="Folders">
      <ol class="row">
        <li>
          <Link to={{ name: 'bucket', app, bucket, prefix: '' }}>{bucket}</Link>
        </li>
        {folders.map((folder, i) => (
          <li key={folders.slice(0, i + 1).join('/')}>
            <span class="muted">/ </span>
            <Link
              to={{ name: 'bucket', app, bucket, prefix: `${folders.slice(0, i + 1).join('/')}/` }}
              current={i === folders.length - 1}
            >
              {folder || '/'}
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** Progress of an upload. `name` is its key without the folder's prefix. */
function OneUpload({ upload: { id, file, sent, state, words }, name }: { upload: Upload; name: string }) {
  return (
    <li>
      <span class="cut grow">{name}</span>
      {state !== 'failed' && (
        <>
          <progress max={file.size || 1} value={sent} aria-label={`Upload of ${name}`} />
          <span class="muted small number">
            {bytes(sent)} of {bytes(file.size)}
          </span>
        </>
      )}
      {state === 'broken' && <span class="warn small">{words} The upload resumes automatically.</span>}
      {state === 'failed' && <span class="danger small">{words}</span>}
      {(state === 'failed' || state === 'broken') && (
        <Button short onClick={() => goOn(id)}>
          <IconRefreshCw /> {state === 'failed' ? 'Try again' : 'Try now'}
        </Button>
      )}
      <Button look="quiet" short label={`Cancel the upload of ${name}`} onClick={() => cancel(id)}>
        <IconX />
      </Button>
    </li>
  );
}
