// Code, commands and ids with copy buttons.
import { useState } from 'preact/hooks';
import { Button } from '../controls/button.tsx';
import { IconCheck, IconCopy } from '../icons.tsx';
import { copyText } from './copy-text.ts';

/** A button that copies `text`. `label` says what it copies. */
export function Copy({
  text,
  label = 'Copy',
  short = false,
}: {
  text: string;
  label?: string;
  short?: boolean;
}) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_600);
  };
  return (
    <Button look="quiet" label={copied ? 'Copied' : label} short={short} onClick={copy}>
      {copied ? <IconCheck /> : <IconCopy />}
      <span class="unseen" aria-live="polite">
        {copied ? 'Copied' : ''}
      </span>
    </Button>
  );
}

/** A block of code or commands, with a button that copies it. */
export function Code({
  text,
  wrap = false,
  label = 'Copy',
}: {
  text: string;
  wrap?: boolean;
  label?: string;
}) {
  return (
    <div class={wrap ? 'code wrap' : 'code'}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too */}
      <pre tabIndex={0}>{text}</pre>
      <Copy text={text} label={label} short />
    </div>
  );
}
