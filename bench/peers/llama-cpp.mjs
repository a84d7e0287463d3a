// One measurement of llama.cpp through its prebuilt Node binding, warmed up, as a line of JSON:
// {prefill_tokens_per_second, decode_tokens_per_second}; a figure that was not asked for is 0.
import {getLlama} from "node-llama-cpp";

const [modelPath, threads, prompt, gen, depth] = process.argv.slice(2).map((word, i) => (i === 0 ? word : Number(word)));
const kWarmUpTokens = 4;

const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: threads});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({
    contextSize: Math.max(prompt, depth + gen + kWarmUpTokens + 1) + 8,
    batchSize: 512,
    threads,
    flashAttention: true
});
const sequence = context.getSequence();

// Ids that look like nothing in particular, below the size of every vocabulary.
let state = 42;
const tokens = (count) => Array.from({length: count}, () => (state = (state * 1103515245 + 12345) % 2147483648) % 8000);

async function feed(ids) {
    await sequence.evaluateWithoutGeneratingNewTokens(ids);
}

async function rewind(length) {
    await sequence.eraseContextTokenRanges([{start: length, end: sequence.nextTokenIndex}]);
}

async function decode(count) {
    let done = 0;
    for await (const _ of sequence.evaluate(tokens(1), {temperature: 0, yieldEogToken: true})) {
        if (++done === count) break;
    }
    if (done !== count) throw new Error(`llama.cpp ended after ${done} of ${count} tokens`);
}

const secondsOf = async (work) => {
    const start = performance.now();
    await work();
    return (performance.now() - start) / 1000;
};

const result = {prefill_tokens_per_second: 0, decode_tokens_per_second: 0};
if (prompt > 0) {
    await feed(tokens(prompt));
    await rewind(0);
    result.prefill_tokens_per_second = prompt / (await secondsOf(() => feed(tokens(prompt))));
    await rewind(0);
}
if (gen > 0) {
    if (depth > 0) await feed(tokens(depth));
    await decode(kWarmUpTokens);
    await rewind(depth);
    result.decode_tokens_per_second = gen / (await secondsOf(() => decode(gen)));
}
console.log(JSON.stringify(result));
await context.dispose();
await model.dispose();
await llama.dispose();
