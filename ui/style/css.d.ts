// esbuild takes style sheets where they are imported.
declare module '*.css';
