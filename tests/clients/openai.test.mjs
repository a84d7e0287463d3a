// OpenAI's own client for JavaScript, as its users write.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import {after, before, describe, test} from 'node:test';

import {need, scripted, serve, tale, temporary} from './server.mjs';

const {default: OpenAI} = need('openai');
const {zodFunction, zodResponseFormat} = need('openai/helpers/zod');
const {z} = need('zod');

const clientOf = (server, apiKey = 'none') => new OpenAI({baseURL: `${server.url}/v1`, apiKey, maxRetries: 0});
const user = (content) => [{role: 'user', content}];

/** Runs the tests with a server of their own. */
function withServer(name, model, options, body) {
  describe(name, () => {
    const context = {};
    before(async () => {
      context.server = await serve(model(), ...options);
      context.client = clientOf(context.server);
      const {data} = await context.client.models.list();
      context.model = data[0].id;
    });
    after(async () => {
      await context.server?.idle();
      await context.server?.stop();
    });
    body(context);
  });
}

withServer('the model that ships with the project', () => tale, [], (it) => {
  const greedy = () => ({model: it.model, temperature: 0});

  test('models are listed and found', async () => {
    const found = await it.client.models.retrieve(it.model);
    assert.equal(found.id, it.model);
    assert.equal(found.object, 'model');
    await assert.rejects(it.client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
  });

  test('a chat, whole and streamed, is the same', async () => {
    const request = {...greedy(), messages: user('Tell me a story about a frog.'), max_tokens: 48};
    const whole = await it.client.chat.completions.create(request);
    assert.equal(whole.object, 'chat.completion');
    assert.equal(whole.choices.length, 1);
    assert.equal(whole.choices[0].message.role, 'assistant');
    assert.ok(whole.choices[0].message.content.length > 20);
    assert.ok(['stop', 'length'].includes(whole.choices[0].finish_reason));
    assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

    let text = '';
    const reasons = [];
    const usages = [];
    const ids = new Set();
    const stream = await it.client.chat.completions.create({...request, stream: true, stream_options: {include_usage: true}});
    for await (const chunk of stream) {
      ids.add(chunk.id);
      if (chunk.usage) usages.push([chunk.choices.length, chunk.usage]);
      for (const choice of chunk.choices) {
        text += choice.delta.content ?? '';
        if (choice.finish_reason) reasons.push(choice.finish_reason);
      }
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.deepEqual(reasons, [whole.choices[0].finish_reason]);
    assert.equal(ids.size, 1);
    assert.equal(usages.length, 1);
    assert.equal(usages[0][0], 0);
    assert.equal(usages[0][1].completion_tokens, whole.usage.completion_tokens);
    assert.equal(usages[0][1].prompt_tokens, whole.usage.prompt_tokens);
  });

  test("the client's own accumulator makes the whole answer of a stream", async () => {
    const request = {...greedy(), messages: user('Tell me a story about the moon.'), max_tokens: 32};
    const whole = await it.client.chat.completions.create(request);
    const stream = it.client.beta.chat.completions.stream(request);
    const pieces = [];
    stream.on('content', (piece) => pieces.push(piece));
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
    assert.equal(pieces.join(''), whole.choices[0].message.content);
  });

  test('many at once get what each gets alone', async () => {
    const ask = (i) => it.client.chat.completions.create({
      model: it.model, messages: user(`Tell me a story about ${i} birds.`), max_tokens: 40, temperature: i % 2, seed: i,
    });
    const alone = [];
    for (let i = 0; i < 24; ++i) alone.push((await ask(i)).choices[0].message.content);
    const together = await Promise.all(alone.map((_, i) => ask(i)));
    assert.deepEqual(together.map((answer) => answer.choices[0].message.content), alone);
  });

  test('choices, stop strings and log-probabilities of completions', async () => {
    const {choices} = await it.client.completions.create({
      model: it.model, prompt: 'Once upon a time', max_tokens: 24, temperature: 1, seed: 3, n: 3, logprobs: 2,
    });
    assert.deepEqual(choices.map((choice) => choice.index).sort(), [0, 1, 2]);
    for (const {logprobs} of choices) {
      assert.equal(logprobs.tokens.length, logprobs.token_logprobs.length);
      assert.ok(logprobs.token_logprobs.every((value) => value <= 0));
    }
    const first = await it.client.completions.create({...greedy(), prompt: 'Once upon a time', max_tokens: 24});
    const word = first.choices[0].text.trim().split(' ')[4];
    const stopped = await it.client.completions.create({...greedy(), prompt: 'Once upon a time', max_tokens: 24, stop: [word]});
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    assert.equal(stopped.choices[0].text, first.choices[0].text.slice(0, first.choices[0].text.indexOf(word)));
  });

  const Animal = z.object({
    kind: z.enum(['frog', 'bird', 'whale']),
    brave: z.boolean(),
    friends: z.array(z.enum(['moon', 'sea'])).max(2),
    home: z.object({wet: z.boolean()}).nullable(),
  });

  test('an answer in the form of a schema is parsed, whole and streamed', async () => {
    const request = {
      model: it.model, messages: user('Which animal?'), temperature: 1, max_tokens: 200,
      response_format: zodResponseFormat(Animal, 'animal'),
    };
    for (let seed = 0; seed < 4; ++seed) {
      const whole = await it.client.beta.chat.completions.parse({...request, seed});
      assert.deepEqual(Animal.parse(whole.choices[0].message.parsed), whole.choices[0].message.parsed);
      const streamed = await it.client.beta.chat.completions.stream({...request, seed}).finalChatCompletion();
      assert.deepEqual(streamed.choices[0].message.parsed, whole.choices[0].message.parsed);
    }
  });

  test('a schema that cannot be held to is refused with its place', async () => {
    const schema = {type: 'object', properties: {a: {type: 'strnig'}}, required: ['a'], additionalProperties: false};
    const error = await it.client.chat.completions.create({
      ...greedy(), messages: user('x'), response_format: {type: 'json_schema', json_schema: {name: 'x', strict: true, schema}},
    }).catch((refusal) => refusal);
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    assert.match(`${error.param} ${error.message}`, /properties.*a.*type/);
  });

  test('any JSON object', async () => {
    const answer = await it.client.chat.completions.create({
      model: it.model, messages: user('Which animal?'), temperature: 0.5, seed: 1, max_tokens: 400,
      response_format: {type: 'json_object'},
    });
    if (answer.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(answer.choices[0].message.content), 'object');
  });

  test('embeddings, in both encodings', async () => {
    const input = ['a frog in a pond', 'a frog in the pond', 'the price of steel'];
    const packed = await it.client.embeddings.create({model: it.model, input});
    const plain = await it.client.embeddings.create({model: it.model, input, encoding_format: 'float'});
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    assert.deepEqual(packed.data.map((one) => one.index), [0, 1, 2]);
    packed.data.forEach(({embedding}, i) => {
      assert.equal(embedding.length, 256);
      assert.ok(Math.abs(dot(embedding, embedding) - 1) < 1e-4);
      assert.deepEqual(embedding.map(Math.fround), plain.data[i].embedding.map(Math.fround));
    });
    const [a, b, c] = plain.data.map((one) => one.embedding);
    assert.ok(dot(a, b) > dot(a, c));
    assert.ok(packed.usage.prompt_tokens > 0);
  });

  test('errors are of the class that the client has for them', async () => {
    const create = (change) => it.client.chat.completions.create({...greedy(), messages: user('x'), ...change})
      .then(() => assert.fail(`${JSON.stringify(change)} was accepted`), (error) => error);
    for (const [change, param] of [
      [{temperature: 'hot'}, 'temperature'], [{max_tokens: '5'}, 'max_tokens'], [{n: 0}, 'n'], [{messages: 7}, 'messages'],
      [{stop: {}}, 'stop'], [{stream: 'yes'}, 'stream'], [{stream: true, temperature: 'hot'}, 'temperature'],
      [{logit_bias: {x: 1}}, 'logit_bias'],
    ]) {
      const error = await create(change);
      assert.ok(error instanceof OpenAI.BadRequestError, `${JSON.stringify(change)}: ${error}`);
      assert.equal(error.status, 400);
      assert.equal(error.param, param);
      assert.equal(error.type, 'invalid_request_error');
    }
    const unknown = await create({model: 'no-such-model'});
    assert.ok(unknown instanceof OpenAI.NotFoundError, String(unknown));
    assert.equal(unknown.code, 'model_not_found');
  });
});

withServer('a model that thinks', () => scripted('think'), [], (it) => {
  const greedy = (more) => ({model: it.model, temperature: 0, messages: user('Hello'), ...more});

  test('thoughts and answer come apart', async () => {
    const {choices: [{message, finish_reason}], usage} = await it.client.chat.completions.create(greedy());
    assert.equal(message.reasoning_content, 'hi');
    assert.equal(message.content.trim(), 'ok');
    assert.equal(finish_reason, 'stop');
    assert.ok(usage.completion_tokens_details.reasoning_tokens > 0);

    let thoughts = '';
    let content = '';
    for await (const chunk of await it.client.chat.completions.create(greedy({stream: true}))) {
      const delta = chunk.choices[0]?.delta ?? {};
      if (delta.reasoning_content) assert.equal(content, '', 'thoughts come before the answer');
      thoughts += delta.reasoning_content ?? '';
      content += delta.content ?? '';
    }
    assert.equal(thoughts, message.reasoning_content);
    assert.equal(content, message.content);
  });

  test('without thinking there are no thoughts', async () => {
    const {choices: [{message}]} = await it.client.chat.completions.create(greedy({chat_template_kwargs: {enable_thinking: false}}));
    assert.equal(message.content, 'ok');
    assert.ok(!message.reasoning_content);
  });

  test('an answer in a form may be thought about first', async () => {
    const format = zodResponseFormat(z.object({ok: z.boolean()}), 'answer');
    const answer = await it.client.beta.chat.completions.parse(greedy({response_format: format, max_tokens: 64}));
    assert.equal(answer.choices[0].message.reasoning_content, 'hi');
    assert.equal(typeof answer.choices[0].message.parsed.ok, 'boolean');
  });
});

withServer('a model that calls a tool', () => scripted('call'), [], (it) => {
  const parameters = {type: 'object', properties: {x: {type: 'integer'}}, required: ['x'], additionalProperties: false};
  const tools = [{type: 'function', function: {name: 'f', description: 'takes a number', parameters}}];
  const greedy = (more) => ({model: it.model, temperature: 0, messages: user('Call f.'), tools, ...more});

  function check({message, finish_reason}) {
    assert.equal(finish_reason, 'tool_calls');
    assert.ok(!message.content);
    assert.equal(message.tool_calls.length, 1);
    const [call] = message.tool_calls;
    assert.equal(call.type, 'function');
    assert.ok(call.id);
    assert.equal(call.function.name, 'f');
    assert.deepEqual(JSON.parse(call.function.arguments), {x: 1});
  }

  test('whole', async () => check((await it.client.chat.completions.create(greedy())).choices[0]));

  test('streamed', async () => {
    const stream = it.client.beta.chat.completions.stream(greedy());
    const final = await stream.finalChatCompletion();
    check(final.choices[0]);
  });

  test('required, and by name', async () => {
    for (const tool_choice of ['required', {type: 'function', function: {name: 'f'}}]) {
      const {choices: [{message}]} = await it.client.chat.completions.create(greedy({tool_choice}));
      assert.equal(message.tool_calls[0].function.name, 'f');
      assert.equal(typeof JSON.parse(message.tool_calls[0].function.arguments).x, 'number');
    }
    await assert.rejects(it.client.chat.completions.create(greedy({tool_choice: {type: 'function', function: {name: 'nope'}}})),
      OpenAI.BadRequestError);
  });

  test('arguments are parsed by the schema that was sent', async () => {
    const tool = zodFunction({name: 'f', parameters: z.object({x: z.number().int()})});
    const {choices: [{message}]} = await it.client.beta.chat.completions.parse(greedy({tools: [tool]}));
    assert.deepEqual(message.tool_calls[0].function.parsed_arguments, {x: 1});
  });

  test("the client's runner calls the function and sends what it said", async () => {
    const calls = [];
    const runner = it.client.beta.chat.completions.runTools(greedy({
      tools: [{type: 'function', function: {
        name: 'f', description: 'takes a number', parameters, parse: JSON.parse,
        function: (given) => {
          calls.push(given);
          return 'done';
        },
      }}],
    }), {maxChatCompletions: 2});
    await runner.done();
    assert.deepEqual(calls, [{x: 1}, {x: 1}]);
    assert.ok(runner.messages.some((message) => message.role === 'tool' && message.content === 'done'));
  });
});

withServer('a model without an end', () => scripted('endless'), [], (it) => {
  const endless = (more) => ({model: it.model, temperature: 0, messages: user('Go'), ...more});

  test('a stream that its reader leaves', async () => {
    for (let i = 0; i < 5; ++i) {
      const stream = await it.client.chat.completions.create(endless({stream: true}));
      let chunks = 0;
      for await (const chunk of stream) {
        assert.ok(chunk.choices);
        if (++chunks === 5) stream.controller.abort();
      }
      assert.ok(chunks >= 5);
      await it.server.idle();
    }
  });

  test('many that leave at once', async () => {
    await Promise.all(Array.from({length: 16}, async () => {
      const stream = await it.client.chat.completions.create(endless({stream: true}));
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    }));
    await it.server.idle();
  });

  test('a request that is given up before its answer', async () => {
    const controller = new AbortController();
    const answer = it.client.chat.completions.create(endless(), {signal: controller.signal});
    for (let running = 0; running === 0;) running = (await it.server.metrics()).value('inferno_requests_running');
    controller.abort();
    await assert.rejects(answer, OpenAI.APIUserAbortError);
    await it.server.idle();
    const short = await it.client.chat.completions.create(endless({max_tokens: 4}));
    assert.equal(short.choices[0].finish_reason, 'length');
    assert.equal(short.usage.completion_tokens, 4);
  });
});

describe('a server with a key', () => {
  test('lets in who has it, and nobody else', async () => {
    const file = temporary('keys');
    writeFileSync(file, 'correct-horse\n');
    const server = await serve(tale, '--api-key-file', file);
    try {
      for (const wrong of ['wrong', 'correct', 'correct-horse-battery']) {
        const error = await clientOf(server, wrong).models.list().catch((refusal) => refusal);
        assert.ok(error instanceof OpenAI.AuthenticationError, String(error));
        assert.equal(error.status, 401);
      }
      const {data} = await clientOf(server, 'correct-horse').models.list();
      assert.equal(data.length, 1);
      assert.ok(!server.said.join('').includes('correct-horse'), 'the key is never logged');
    } finally {
      await server.stop();
    }
  });
});
