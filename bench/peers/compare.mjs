// inferno beside llama.cpp: the same file, the same threads, alternating; medians and their ratios.
import {execFile} from "node:child_process";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs, promisify} from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const usage = `usage: node compare.mjs -m MODEL.gguf [--inferno PROGRAM] [--threads N] [--rounds N] [--gen N] [--json]

Compares prefill of 511 tokens and decoding at depths 0, 511 and 4096 (where the model's context allows).
"npm install" in this folder brings the pinned peer; it needs Node 20.

  inferno synth --preset 0.6b --type q8_0 /tmp/0.6b.gguf && node compare.mjs -m /tmp/0.6b.gguf
`;

let options;
try {
    options = parseArgs({
        options: {
            model: {type: "string", short: "m"},
            inferno: {type: "string", default: join(here, "../../build/release/inferno")},
            threads: {type: "string", default: "2"},
            rounds: {type: "string", default: "5"},
            gen: {type: "string", default: "32"},
            json: {type: "boolean", default: false},
            help: {type: "boolean", short: "h", default: false}
        }
    }).values;
} catch (error) {
    console.error(`error: ${error.message}\n\n${usage}`);
    process.exit(2);
}
if (options.help) {
    console.log(usage);
    process.exit(0);
}
if (!options.model) {
    console.error(`error: no model was named\n\n${usage}`);
    process.exit(2);
}

const run = promisify(execFile);
const model = resolve(options.model);

async function inferno({prompt, gen, depth}) {
    const words = ["bench", "-m", model, "--backend", "pool", "--threads", options.threads, "--prompt", prompt,
        "--gen", gen, "--depth", depth, "--repeats", 1, "--json"];
    return JSON.parse((await run(options.inferno, words.map(String))).stdout);
}

async function peer({prompt, gen, depth}) {
    const words = [join(here, "llama-cpp.mjs"), model, options.threads, prompt, gen, depth];
    return JSON.parse((await run(process.execPath, words.map(String))).stdout.trim().split("\n").pop());
}

const median = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

const {stdout: described} = await run(options.inferno, ["inspect", "-m", model, "--json"], {maxBuffer: 1 << 28});
const context = JSON.parse(described).metadata["qwen3.context_length"];
const gen = Number(options.gen);
const workloads = [
    {name: "prefill 511", field: "prefill_tokens_per_second", prompt: 511, gen: 0, depth: 0},
    ...[0, 511, 4096].map((depth) => (
        {name: `decode at depth ${depth}`, field: "decode_tokens_per_second", prompt: 0, gen, depth}))
].filter((workload) => Math.max(workload.prompt, workload.depth + gen + 8) <= context);

const results = [];
for (const workload of workloads) {
    const rates = {inferno: [], llama_cpp: []};
    for (let round = 0; round < Number(options.rounds); ++round) {
        if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${workload.name}: round ${round + 1}`);
        rates.inferno.push((await inferno(workload))[workload.field]);
        rates.llama_cpp.push((await peer(workload))[workload.field]);
    }
    results.push({
        workload: workload.name,
        inferno: median(rates.inferno),
        llama_cpp: median(rates.llama_cpp),
        // Of pairs that ran one after the other: the machine may be another one a minute later.
        ratio: median(rates.inferno.map((rate, i) => rate / rates.llama_cpp[i]))
    });
}
if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");

if (options.json) {
    console.log(JSON.stringify({model, threads: Number(options.threads), rounds: Number(options.rounds), results}, null, 2));
} else {
    console.log(`${"".padEnd(22)}${"inferno".padStart(12)}${"llama.cpp".padStart(12)}${"ratio".padStart(9)}   tokens/s, medians of ${options.rounds}`);
    for (const row of results) {
        console.log(`${row.workload.padEnd(22)}${row.inferno.toFixed(1).padStart(12)}${row.llama_cpp.toFixed(1).padStart(12)}${row.ratio.toFixed(2).padStart(9)}`);
    }
}
