// An object of a bucket: a preview and its metadata.
import { bucketObjectModel, type LookedAt, nameOf } from '../../models/storage/bucket.ts';
import { rawUrl } from '../../models/storage/uploads.ts';
import { bytesOf, hex, prettyJson, textIn } from '../../models/storage/values.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { bytes } from '../../parts/format.ts';
import { IconDownload } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';

/** @param props.name the object's key */
export function ObjectDialog({
  app,
  bucket,
  name,
  onClose,
}: {
  app: string;
  bucket: string;
  name: string;
  onClose: () => void;
}) {
  const { object } = useModel(() => bucketObjectModel(app, bucket, name));
  return (
    <Dialog title={nameOf(name) || name} onClose={onClose} large>
      <Loaded of={object}>
        {(found) => (
          <div class="stack">
            <Look {...found} url={rawUrl(app, bucket, name)} />
            <dl class="facts">
              <dt>Key</dt>
              <dd>
                <code>{found.key}</code>
              </dd>
              <dt>Size</dt>
              <dd>{bytes(found.size)}</dd>
              <dt>Type</dt>
              <dd>{found.content_type ?? 'none given'}</dd>
              <dt>Put</dt>
              <dd>
                <Time at={found.uploaded_at} />
              </dd>
              <dt>ETag</dt>
              <dd>
                <code>{found.etag}</code>
              </dd>
              {Object.entries(found.metadata).map(([key, value]) => [
                <dt key={key}>{key}</dt>,
                <dd key={`${key} value`}>{value}</dd>,
              ])}
            </dl>
            <footer>
              <Button onClick={onClose}>Close</Button>
              <a class="button primary" href={rawUrl(app, bucket, name)} download={nameOf(name)}>
                <IconDownload /> Download
              </a>
            </footer>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/svg+xml'];

/** Maximum size of an image that is shown, in bytes. */
const IMAGE_BYTES = 20 * 1024 * 1024;

/** Shows an object as an image, text or bytes. An SVG in an `img` element runs no scripts. */
function Look({
  content_base64: whole,
  beginning_base64: beginning,
  content_type: type,
  size,
  url,
}: Pick<LookedAt, 'content_base64' | 'beginning_base64' | 'content_type' | 'size'> & { url: string }) {
  if (size === 0) return <p class="muted">The object is empty.</p>;
  if (type !== null && IMAGES.includes(type) && size <= IMAGE_BYTES)
    return (
      <div class="picture">
        <img src={url} alt="" class={type === 'image/svg+xml' ? 'drawing' : undefined} />
      </div>
    );
  const raw = bytesOf((whole ?? beginning)!);
  const text = textIn(raw, whole === null);
  return (
    <>
      {whole === null && (
        <p class="muted">
          The first {bytes(raw.length)} of {bytes(size)}:
        </p>
      )}
      {text === null ? (
        <Code text={hex(raw, 256)} wrap />
      ) : (
        <Code text={(prettyJson(text) ?? text).slice(0, 100_000)} wrap />
      )}
    </>
  );
}
