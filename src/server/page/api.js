// What the pages ask the server, and what can go wrong with it.

/** A request that failed, in words for the person who waits for it. */
export class Failure extends Error {
  /**
   * @param kind 'key' (401), 'wrongkey' (401 though there was a key), 'busy' (429), 'unavailable' (503), 'full' (more than
   *   the context holds), 'refused' (another 4xx), 'server' (another 5xx), 'gone' (no connection), 'broken' (the answer ended early or said that it failed)
   * @param retryAfter seconds, if the server named them
   */
  constructor(kind, message, retryAfter = null) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }

  /** Whether a key, or another one, is what it takes. */
  get isAboutKey() {
    return this.kind === 'key' || this.kind === 'wrongkey';
  }
}

const kinds = {401: 'key', 429: 'busy', 503: 'unavailable'};

async function failureOf(response, key) {
  let message = '';
  let code = '';
  try {
    const body = await response.json();
    message = typeof body?.error?.message === 'string' ? body.error.message : '';
    code = body?.error?.code;
  } catch {
    // What is no JSON says nothing that a person wants to read.
  }
  let kind = kinds[response.status] ?? (response.status < 500 ? 'refused' : 'server');
  if (kind === 'key' && key) kind = 'wrongkey';
  if (code === 'context_length_exceeded') kind = 'full';
  const seconds = Number.parseInt(response.headers.get('Retry-After') ?? '', 10);
  return new Failure(kind, message || `The server answered with status ${response.status}.`,
    Number.isFinite(seconds) ? seconds : null);
}

/** fetch, with the key if there is one; throws Failure unless the status is 2xx, AbortError if told to stop. */
export async function ask(path, {key = '', ...options} = {}) {
  const headers = new Headers(options.headers);
  if (/[^!-~]/.test(key)) throw new Failure('wrongkey', 'A key has letters, digits and signs of ASCII only, and no spaces.');
  if (key) headers.set('Authorization', `Bearer ${key}`);
  let response;
  try {
    response = await fetch(path, {cache: 'no-store', ...options, headers});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure('gone', 'The server cannot be reached.');
  }
  if (!response.ok) throw await failureOf(response, key);
  return response;
}

/** The ids of the models. */
export async function models(key) {
  const body = await (await ask('/v1/models', {key})).json();
  return Array.isArray(body?.data) ? body.data.map((model) => String(model.id)) : [];
}

/** Takes server-sent events apart, whatever pieces they come in. */
export class EventParser {
  #rest = '';
  #data = [];

  /** The data of the events that are complete with this piece. */
  push(text) {
    const events = [];
    // A line may end in CR LF, LF or CR; a CR at the end may be half of a CR LF.
    const whole = this.#rest + text;
    const lines = whole.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) events.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
    return events;
  }
}

/** The chunks of a streamed chat completion, as they come. `body` is the request without `stream`. */
export async function* chat(body, {key, signal}) {
  const response = await ask('/v1/chat/completions', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true, continuous_usage_stats: true}}),
    key,
    signal,
  });
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      let piece;
      try {
        piece = await reader.read();
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new Failure('gone', 'The connection to the server was lost.');
      }
      if (piece.done) break;
      for (const data of parser.push(decoder.decode(piece.value, {stream: true}))) {
        if (data === '[DONE]') return;
        let chunk;
        try {
          chunk = JSON.parse(data);
        } catch {
          throw new Failure('broken', 'The server sent something that is no answer.');
        }
        if (chunk?.error) throw new Failure('broken', String(chunk.error.message ?? 'The server gave up.'));
        yield chunk;
      }
    }
    throw new Failure('broken', 'The answer ended before it was complete.');
  } finally {
    reader.cancel().catch(() => {});
  }
}
