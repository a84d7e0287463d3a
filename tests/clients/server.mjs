// Starts the program as its users do, and stops it.
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const environment = (name) => process.env[name] ?? assert.fail(`${name} is not set; start the tests by tests/clients/run`);

/** Finds packages where scripts/fetch-clients has put them. */
export const need = (name) => createRequire(resolve(environment('INFERNO_CLIENTS'), 'x'))(name);

/** The model that ships with the project. */
export const tale = join(root, 'models/tale-12m-q8_0.gguf');

const folder = mkdtempSync(join(tmpdir(), 'inferno-clients-'));
process.on('exit', () => rmSync(folder, {recursive: true, force: true}));
/** A path for a file that goes when the tests have ended. */
export const temporary = (name) => join(folder, name);

// Ids of Qwen3's tokenizer. Its chat prompts end in 198 with thinking on, in 271 with thinking off.
const chains = {
  /** Thinks `hi`, answers `ok`. */
  think: [[198, 151667, 6023, 151668, 271, 562, 151645]],
  /** Calls f(x=1), whatever it is told. */
  call: [[198, 151657, 4913, 606, 3252, 69, 2198, 16370, 22317, 87, 788, 16, 3417, 151658, 151645]],
  /** Says ` the` and a newline for ever. */
  endless: [[198, 279, 198]],
  /** Thinks `hihihi` for ever; without thinking it says ` the a the a`. */
  brooding: [[198, 151667, 6023, 6023], [271, 279, 264, 279]],
};

const written = new Map();

/** The path of a model whose greedy output is chosen: `think`, `call`, `endless` or `brooding`. */
export function scripted(name) {
  if (!written.has(name)) {
    const path = temporary(`${name}.gguf`);
    execFileSync(environment('INFERNO_SCRIPTED_MODEL_WRITER'), ['--tokenizer', environment('INFERNO_TOKENIZER'),
      ...chains[name].flatMap((chain) => ['--chain', chain.join(',')]), path]);
    written.set(name, path);
  }
  return written.get(name);
}

class Server {
  constructor(child, url, said) {
    this.child = child;
    this.url = url;
    this.said = said;
  }

  /** Ends it as a service manager does. It must end by itself, without an error. */
  async stop() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((done) => this.child.once('exit', (code, signal) => done({code, signal})));
    this.child.kill('SIGTERM');
    const late = setTimeout(() => this.child.kill('SIGKILL'), 60_000);
    const end = await ended;
    clearTimeout(late);
    assert.deepEqual(end, {code: 0, signal: null}, this.said.join(''));
  }

  async metrics() {
    const response = await fetch(`${this.url}/metrics`);
    assert.equal(response.status, 200);
    return new Reading(await response.text(), Date.now());
  }

  /** Waits until nothing runs and nothing waits. */
  async idle() {
    for (let tries = 0; ; ++tries) {
      const metrics = await this.metrics();
      const busy = ['inferno_requests_running', 'inferno_requests_queued'].map((name) => metrics.value(name));
      if (busy.every((count) => count === 0)) return;
      assert.ok(tries < 600, `running and queued stay at ${busy}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}

// The page's own parser. As text, since its file is no module in Node's eyes.
const {Reading} = await import('data:text/javascript,' +
  encodeURIComponent(readFileSync(join(root, 'src/server/page/prometheus.js'), 'utf8')));

/** A server of `model`, ready for requests. */
export async function serve(model, ...options) {
  const child = spawn(environment('INFERNO_PROGRAM'), ['serve', '--port', '0', '-m', model, ...options],
    {stdio: ['ignore', 'ignore', 'pipe']});
  process.once('exit', () => child.kill('SIGKILL'));
  const said = [];
  child.stderr.setEncoding('utf8');
  const url = await new Promise((done, fail) => {
    child.stderr.on('data', (text) => {
      said.push(text);
      const found = /listening on (https?:\/\/\S+)/.exec(said.join(''));
      if (found) done(found[1]);
    });
    child.once('error', fail);
    child.once('exit', (code) => fail(new Error(`serve ended with ${code} before it listened:\n${said.join('')}`)));
  });
  return new Server(child, url, said);
}
