// Starts a Podman for one test. Its only image contains this machine's Node and Node's libraries, so it needs no registry.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { eventually } from '../processes.ts';

export const IMAGE = 'localhost/sample';
/** crun fails on a machine that mounts control groups of versions 1 and 2. So the command unmounts version 2 first. */
const SERVE =
  'umount /sys/fs/cgroup/unified 2>/dev/null; exec podman --root "$1/root" --runroot "$1/run" system service --time=0 "unix://$1/podman.sock"';

/** The reason why this machine cannot run containers; `undefined` if it can. */
export const noEngine: string | undefined =
  process.getuid?.() !== 0
    ? "only root can start this test's Podman"
    : ['/usr/bin/podman', '/usr/bin/crun'].every((path) => existsSync(path))
      ? undefined
      : 'Podman and crun are not installed';

export class TestEngine {
  readonly directory = mkdtempSync(join(tmpdir(), 'cellar-podman-'));
  #child: ChildProcess | null = null;

  get url(): string {
    return `unix://${this.directory}/podman.sock`;
  }

  /** Starts Podman, and imports the image. @param program JavaScript source of the image's server, run by Node */
  async start(program: string): Promise<void> {
    chmodSync(this.directory, 0o700);
    this.#child = spawn(
      'unshare',
      ['-m', '--propagation', 'private', 'sh', '-c', SERVE, 'sh', this.directory],
      // Podman's helpers leave files in their working directory.
      { stdio: 'ignore', cwd: this.directory },
    );
    await eventually(() => existsSync(join(this.directory, 'podman.sock')), 'the socket of Podman');
    const image = join(this.directory, 'image');
    const libraries = execFileSync('ldd', [process.execPath], { encoding: 'utf8' }).match(/\/\S+/g)!;
    for (const path of libraries) copy(path, join(image, path));
    copy(process.execPath, join(image, 'bin/node'));
    copy('/bin/sleep', join(image, 'bin/sleep'));
    writeFileSync(join(image, 'server.js'), program);
    const tar = join(this.directory, 'image.tar');
    execFileSync('tar', ['cf', tar, '-C', image, '.']);
    const from = `http://engine/images/create?fromSrc=-&repo=${encodeURIComponent(IMAGE)}`;
    const socket = join(this.directory, 'podman.sock');
    execFileSync('curl', ['-sf', '--unix-socket', socket, '-X', 'POST', '-T', tar, from]);
    rmSync(image, { recursive: true });
    rmSync(tar);
  }

  /** Calls Podman's API. */
  call(path: string): unknown {
    const socket = join(this.directory, 'podman.sock');
    return JSON.parse(
      execFileSync('curl', ['-sf', '--unix-socket', socket, `http://engine${path}`], { encoding: 'utf8' }),
    );
  }

  /** The names of running containers. */
  running(): string[] {
    const all = this.call('/containers/json') as { Names: string[] }[];
    return all.flatMap(({ Names }) => Names).sort();
  }

  /** Ends all containers and Podman, and removes the storage. */
  async close(): Promise<void> {
    const base = ['--root', join(this.directory, 'root'), '--runroot', join(this.directory, 'run')];
    execFileSync('podman', [...base, 'rm', '-af', '-t', '0'], { stdio: 'ignore' });
    const ended = new Promise((resolve) => this.#child?.once('exit', resolve));
    this.#child?.kill('SIGKILL');
    await ended;
    execFileSync('podman', [...base, 'system', 'reset', '-f'], { stdio: 'ignore' });
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}
