// Takes a built folder, by drop or by choice, and deploys it.
import { useEffect, useRef, useState } from 'preact/hooks';
import {
  chosenFolder,
  deployFolder,
  droppedFolder,
  type Folder,
  type Progress,
} from '../models/deploys/folder.ts';
import { Button } from '../parts/controls/button.tsx';
import { IconFolder } from '../parts/icons.tsx';
import { Notice } from '../parts/status/states.tsx';

/** @param props.onDeploy called with the id of the deploy that was started */
export function FolderDrop({ app, onDeploy }: { app: string; onDeploy: (id: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const ending = useRef<AbortController | null>(null);
  const [over, setOver] = useState(false);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [wrong, setWrong] = useState<string | null>(null);
  useEffect(() => () => ending.current?.abort(), []);
  const take = async (folder: Promise<Folder> | Folder) => {
    const own = new AbortController();
    ending.current = own;
    setWrong(null);
    setProgress({ words: 'Reading the folder', part: 0 });
    try {
      onDeploy(await deployFolder(app, await folder, { onProgress: setProgress, signal: own.signal }));
    } catch (error) {
      if (!own.signal.aborted) setWrong((error as Error).message);
    } finally {
      setProgress(null);
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button below does the same by keyboard
    <div
      class={over ? 'stack drop over' : 'stack drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (progress === null && event.dataTransfer) void take(droppedFolder(event.dataTransfer));
      }}
    >
      <p class="muted">
        Drop the folder that your build writes, such as <code>dist</code>, with an <code>index.html</code>.
        Its files are served as they are. Files such as <code>.env</code> and <code>node_modules</code> are
        left out.
      </p>
      <input
        ref={(node) => {
          input.current = node;
          if (node) node.webkitdirectory = true;
        }}
        type="file"
        multiple
        hidden
        aria-label="Folder"
        onChange={(event) => {
          const folder = chosenFolder(event.currentTarget.files ?? []);
          event.currentTarget.value = '';
          void take(folder);
        }}
      />
      {wrong !== null && <Notice look="danger">{wrong}</Notice>}
      {progress === null ? (
        <div>
          <Button needs="push" onClick={() => input.current!.click()}>
            <IconFolder /> Choose a folder
          </Button>
        </div>
      ) : (
        <div class="row" role="status">
          <progress class="grow" value={progress.part} max={1} aria-label="Upload" />
          <span class="small">{progress.words}</span>
          <Button short onClick={() => ending.current?.abort()}>
            Cancel
          </Button>
        </div>
      )}
      {over && <p class="drop-words">Drop to deploy</p>}
    </div>
  );
}
