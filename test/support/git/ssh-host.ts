// A Git host over SSH: a real sshd, which runs git for clients with the allowed key.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { ownPort } from '../ports.ts';
import { eventually } from '../processes.ts';

const SSHD = '/usr/sbin/sshd';
const START_MS = 30_000;

/** Options of a test that needs sshd. If sshd cannot run here, they skip the test and give the reason. */
export const NEEDS_SSHD: { skip?: string } = needs();

function needs(): { skip?: string } {
  if (!existsSync(SSHD)) return { skip: 'sshd is not installed: apt-get install openssh-server' };
  try {
    userInfo();
    return {};
  } catch {
    return { skip: 'sshd needs a user name, and the current user id has none' };
  }
}

export class SshHost {
  readonly port = ownPort();
  readonly #directory = mkdtempSync(join(tmpdir(), 'cellar-sshd-'));
  #child: ChildProcess | null = null;

  /** Starts sshd with a new host key. */
  async start(): Promise<void> {
    // sshd demands this directory when root starts it.
    if (process.getuid!() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const key = join(this.#directory, 'host');
    rmSync(key, { force: true });
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    const settings = {
      ListenAddress: '127.0.0.1',
      Port: this.port,
      HostKey: key,
      AuthorizedKeysFile: join(this.#directory, 'authorized'),
      PidFile: 'none',
      StrictModes: 'no',
      UsePAM: 'no',
      PasswordAuthentication: 'no',
    };
    const words = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    this.#child = spawn(SSHD, ['-D', '-e', '-f', '/dev/null', ...words], { stdio: 'ignore' });
    await eventually(() => this.#answers(), 'sshd listens', START_MS);
  }

  /** Makes this the only key that may connect. @param publicKey one line */
  allow(publicKey: string): void {
    writeFileSync(join(this.#directory, 'authorized'), `${publicKey}\n`);
  }

  /** @param path path of the repository on the disk */
  url(path: string): string {
    return `ssh://${userInfo().username}@localhost:${this.port}${path}`;
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill();
    await ended;
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  }
}
