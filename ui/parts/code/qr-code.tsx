// A QR code. Its library is loaded on first use.
import { useEffect, useState } from 'preact/hooks';

/** Width of the quiet zone that scanners need, in modules. */
const BORDER = 4;

/** @param props.label describes the content, for screen readers */
export function QrCode({ text, label }: { text: string; label: string }) {
  const [drawn, setDrawn] = useState<{ size: number; path: string } | null>(null);
  useEffect(() => {
    let isGone = false;
    import('uqr').then(
      ({ encode }) => {
        const { size, data } = encode(text, { border: BORDER });
        const squares = data.flatMap((row, y) =>
          row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')),
        );
        if (!isGone) setDrawn({ size, path: squares.join('') });
      },
      // Ignores a failure, because the content is also shown as text.
      () => {},
    );
    return () => {
      isGone = true;
    };
  }, [text]);
  return (
    <svg class="qr" role="img" aria-label={label} viewBox={`0 0 ${drawn?.size ?? 1} ${drawn?.size ?? 1}`}>
      <path d={drawn?.path ?? ''} />
    </svg>
  );
}
