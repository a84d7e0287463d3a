// The page of figures: reads /metrics once a second and draws what has become of it.
import {ask, Failure} from './api.js';
import {Chart} from './chart.js';
import {element, failureBox} from './dom.js';
import {growth, quantile, rate, Reading} from './prometheus.js';
import {apiKey} from './store.js';

const interval = 1000; // milliseconds
const recent = 10; // readings: what quantiles and shares are taken over

const number = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const precise = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});
const count = (value) => (value >= 1000 ? number.format(value) : precise.format(value));
const percent = (value) => `${precise.format(value * 100)} %`;
const time = (seconds) => (seconds < 1 ? `${precise.format(seconds * 1000)} ms` : `${precise.format(seconds)} s`);
const shown = (value, format) => (value === null || !Number.isFinite(value) ? '–' : format(value));

/** A part of a whole; null without one. */
const share = (some, all) => (some !== null && all > 0 ? some / all : null);

/** Of the last seconds; if nothing came in them, the figure says what holds since the start. */
const latency = (name) => (before, now, past) => {
  const [half, most] = [0.5, 0.95].map((q) => quantile(past, now, name, q));
  const whole = quantile(null, now, name, 0.5);
  return {value: half ?? whole, series: [half, most], legend: [half, most], more: {'median since the start': shown(whole, time)}};
};

// Each card: what its chart shows, and `read`, from the reading before, the present one and one of some seconds ago:
// {value, series, legend: values of the lines, more: {name: words}, top}.
const cards = [
  {
    title: 'Requests', unit: 'running', names: ['running', 'waiting'], format: count,
    read: (before, now) => {
      const running = now.value('inferno_requests_running');
      const queued = now.value('inferno_requests_queued');
      return {
        value: running, series: [running, queued], legend: [running, queued],
        more: {paused: shown(now.value('inferno_requests_paused'), count), stalled: shown(now.value('inferno_requests_stalled'), count)},
      };
    },
  },
  {
    title: 'Tokens', unit: 'generated/s', names: ['generated', 'prompts read'], format: count,
    read: (before, now) => {
      const generated = rate(before, now, 'inferno_generated_tokens_total');
      const prefilled = rate(before, now, 'inferno_prefilled_tokens_total');
      return {
        value: generated, series: [generated, prefilled], legend: [generated, prefilled],
        more: {'since the start': shown(now.value('inferno_generated_tokens_total'), count)},
      };
    },
  },
  {
    title: 'Batch', unit: 'rows a step', names: ['rows'], format: count,
    read: (before, now) => {
      const steps = growth(before, now, 'inferno_steps_total');
      const rows = share(growth(before, now, 'inferno_step_rows_total'), steps) ?? (steps === 0 ? 0 : null);
      const seconds = share(growth(before, now, 'inferno_step_seconds_total'), steps);
      return {
        value: rows, series: [rows], legend: [rows],
        more: {'steps/s': shown(rate(before, now, 'inferno_steps_total'), count), 'a step takes': shown(seconds, time)},
      };
    },
  },
  {
    title: 'Cache blocks', unit: 'in use', names: ['in use', 'cached'], format: count, filled: true,
    read: (before, now) => {
      const [used, cached, free] = ['in_use', 'cached', 'free'].map((state) => now.value('inferno_kv_blocks', {state}));
      const all = used === null ? null : used + cached + free;
      return {
        value: used, series: [used, cached], legend: [used, cached], top: all ?? undefined,
        more: {free: shown(free, count), all: shown(all, count)},
      };
    },
  },
  {
    title: 'Prefix cache hit rate', unit: 'of prompt tokens', names: ['lately'], format: percent, top: 1,
    read: (before, now, past) => {
      const of = (from) => share(growth(from, now, 'inferno_cached_prompt_tokens_total'), growth(from, now, 'inferno_prompt_tokens_total'));
      const whole = share(now.value('inferno_cached_prompt_tokens_total'), now.value('inferno_prompt_tokens_total'));
      const lately = of(past);
      return {
        value: lately ?? whole, series: [lately], legend: [lately],
        more: {'since the start': shown(whole, percent), evicted: shown(now.value('inferno_prefix_cache_evictions_total'), count)},
      };
    },
  },
  {title: 'Time to the first token', unit: 'median', names: ['median', '95 of 100'], format: time, read: latency('inferno_time_to_first_token_seconds')},
  {title: 'Time between tokens', unit: 'median', names: ['median', '95 of 100'], format: time, read: latency('inferno_time_between_tokens_seconds')},
  {
    title: 'Finished requests', unit: 'a second', names: ['finished'], format: count,
    read: (before, now, past) => {
      const ended = rate(before, now, 'inferno_requests_ended_total');
      return {
        value: rate(past, now, 'inferno_requests_ended_total'), series: [ended], legend: [ended],
        more: {
          'median time': shown(quantile(past, now, 'inferno_e2e_request_latency_seconds', 0.5), time),
          refused: shown(now.value('inferno_requests_refused_total'), count),
          failed: shown(now.value('inferno_requests_ended_total', {reason: 'failed'}), count),
        },
      };
    },
  },
  {
    title: 'Connections', unit: 'open', names: ['open', 'being answered'], format: count,
    read: (before, now) => {
      const open = now.value('inferno_http_connections');
      const active = now.value('inferno_http_requests_active');
      return {
        value: open, series: [open, active], legend: [open, active],
        more: {memory: shown(now.value('process_resident_memory_bytes'), (bytes) => `${count(bytes / 2 ** 20)} MiB`)},
      };
    },
  },
];

function build(card) {
  const id = `card-${cards.indexOf(card)}`;
  card.chart = new Chart(card);
  card.value = element('p', {class: 'value'});
  card.legend = element('dl', {class: 'legend'});
  return element('section', {class: 'card', 'aria-labelledby': id},
    element('h2', {id}, card.title), card.value, card.chart.node, card.legend);
}

function entry(name, words, style) {
  return element('div', {class: style}, element('dt', {}, name), element('dd', {}, words));
}

function show(card, reading) {
  const {value, series, legend, more = {}, top} = card.read(...reading);
  card.value.replaceChildren(shown(value, card.format), element('small', {}, card.unit));
  card.chart.add(reading[1].time, series, top ?? card.top);
  card.legend.replaceChildren(
    ...card.names.map((name, i) =>
      entry(name, shown(legend[i], card.format), `${i > 0 ? 'second' : ''}${card.filled ? ' filled' : ''}`)),
    ...Object.entries(more).map(([name, words]) => entry(name, words, 'plain')));
}

function showAll(reading) {
  const rows = [];
  for (const [name, samples] of reading.samples) {
    if (name.endsWith('_bucket')) continue;
    for (const {labels, value} of samples) {
      const marks = Object.entries(labels).map(([key, text]) => `${key}="${text}"`).join(', ');
      const help = reading.help.get(name) ?? reading.help.get(name.replace(/_(sum|count)$/, '')) ?? '';
      rows.push(element('tr', {}, element('td', {}, marks ? `${name}{${marks}}` : name),
        element('td', {}, String(value)), element('td', {}, help)));
    }
  }
  document.getElementById('all').replaceChildren(...rows);
}

const about = document.getElementById('about');
const server = document.getElementById('server');
const pause = document.getElementById('pause');
const details = document.querySelector('.all');
const readings = [];
let timer = 0;
let isReading = false;
let isPaused = false;
let failures = 0;

async function read() {
  clearTimeout(timer);
  if (isPaused || document.hidden || isReading) return;
  isReading = true;
  try {
    const text = await (await ask('/metrics', {key: apiKey.value})).text();
    const now = new Reading(text, Date.now());
    readings.push(now);
    if (readings.length > recent) readings.shift();
    for (const card of cards) show(card, [readings.at(-2) ?? null, now, readings.length > 1 ? readings[0] : null]);
    const info = now.labels('inferno_info') ?? now.labels('inferno_build_info') ?? {};
    about.textContent = [info.model, info.backend, info.device].filter(Boolean).join(' · ');
    if (details.open) showAll(now);
    server.replaceChildren();
    failures = 0;
  } catch (error) {
    ++failures;
    const failure = error instanceof Failure ? error : new Failure('broken', 'The server sent something that is no list of figures.');
    // Said once, not at every try.
    if (failures === 1) server.replaceChildren(failureBox(failure, {retry: read, useKey}));
    if (failure.isAboutKey) return;
  } finally {
    isReading = false;
  }
  timer = setTimeout(read, interval * Math.min(1 + failures, 5));
}

/** A link cannot bring a key along. */
function showSource() {
  const link = document.getElementById('source');
  if (apiKey.value) link.removeAttribute('href');
  else link.href = '/metrics';
}

function useKey(key, keep) {
  apiKey.set(key, keep);
  showSource();
  failures = 0;
  read();
}

pause.addEventListener('click', () => {
  isPaused = !isPaused;
  pause.setAttribute('aria-pressed', String(isPaused));
  pause.querySelector('.word').textContent = isPaused ? 'Go on' : 'Pause';
  pause.title = isPaused ? 'Go on' : 'Hold the figures';
  read();
});
document.addEventListener('visibilitychange', read);
details.addEventListener('toggle', () => { if (details.open && readings.length > 0) showAll(readings.at(-1)); });

apiKey.load();
showSource();
document.getElementById('cards').append(...cards.map(build));
read();
