// A server of the demo agents, which may be killed and started again on the same port and store.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const binary = process.env.HELIX_BIN ?? new URL('../../../target/debug/helix', import.meta.url).pathname;

export class Helix {
  static async start() {
    const helix = new Helix();
    helix.folder = await mkdtemp(join(tmpdir(), 'helix-browser-'));
    helix.log = join(helix.folder, 'log');
    await helix.#spawn('127.0.0.1:0');
    return helix;
  }

  async #spawn(listen) {
    const child = spawn(binary, ['dev', '--agent', 'scenarios', '--listen', listen, '--store', `sqlite:${join(this.folder, 'helix.db')}`], {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stderr.pipe(createWriteStream(this.log, { flags: 'a' }));
    this.child = child;
    this.ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));
    this.url = await new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const url = /^helix: listening on (\S+)/.exec(line);
        if (url) resolve(url[1]);
      });
      child.once('error', reject);
      void this.ended.then((how) => reject(new Error(`the server ended with ${how}; is HELIX_BIN right?`)));
    });
    this.ended.catch(() => {});
  }

  /** Ends the process as a power cut does. */
  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Starts it again, on the same port and store. */
  async restart() {
    await this.#spawn(new URL(this.url).host);
  }

  async get(path) {
    const answer = await fetch(this.url + path);
    if (!answer.ok) throw new Error(`GET ${path} answered ${answer.status}: ${await answer.text()}`);
    return answer.json();
  }

  /** The session that was begun last. */
  async session() {
    const { items, sessions } = await this.get('/sessions');
    return (items ?? sessions)[0].sessionId;
  }

  async lastLog(lines = 15) {
    return (await readFile(this.log, 'utf8').catch(() => '')).split('\n').slice(-lines).join('\n');
  }

  async stop() {
    this.child.kill('SIGTERM');
    const slow = setTimeout(() => this.child.kill('SIGKILL'), 12000);
    await this.ended;
    clearTimeout(slow);
    await rm(this.folder, { recursive: true, force: true });
  }
}
