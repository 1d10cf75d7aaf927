// A QR code. What makes it is loaded when one is shown.
import { useEffect, useState } from 'preact/hooks';

/** Light squares around it, as readers need them. */
const BORDER = 4;

/** @param props.label what it holds, for screen readers */
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
      // What the code says stands beside it as text.
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
