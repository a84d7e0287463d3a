// Prometheus' text format, and what can be computed from two readings of it.

const line = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*/gy;

const numberOf = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text));
const unescape = (text) => text.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));

/** One reading: samples by name, each {labels, value}, and the help of each family. */
export class Reading {
  samples = new Map();
  help = new Map();

  constructor(text, time) {
    this.time = time;
    for (const one of text.split('\n')) {
      if (one.startsWith('# HELP ')) {
        const [, name, words] = /^# HELP (\S+) ?(.*)$/.exec(one) ?? [];
        if (name) this.help.set(name, unescape(words));
        continue;
      }
      if (one.startsWith('#')) continue;
      const match = line.exec(one);
      if (!match) continue;
      const labels = {};
      for (const [, name, value] of (match[2] ?? '').matchAll(label)) labels[name] = unescape(value);
      const list = this.samples.get(match[1]);
      const sample = {labels, value: numberOf(match[3])};
      if (list) list.push(sample);
      else this.samples.set(match[1], [sample]);
    }
  }

  /** The sum of the samples of that name whose labels are among others `labels`; null if there is none. */
  value(name, labels = {}) {
    const found = (this.samples.get(name) ?? []).filter((sample) =>
      Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
    return found.length > 0 ? found.reduce((sum, sample) => sum + sample.value, 0) : null;
  }

  labels(name) {
    return this.samples.get(name)?.[0]?.labels ?? null;
  }
}

/** How much a counter grew; null if it is missing or began anew. */
export function growth(before, after, name, labels) {
  const from = before?.value(name, labels) ?? null;
  const to = after.value(name, labels);
  return from === null || to === null || to < from ? null : to - from;
}

/** Growth per second. */
export function rate(before, after, name, labels) {
  const grown = growth(before, after, name, labels);
  return grown === null || after.time <= before.time ? null : (grown * 1000) / (after.time - before.time);
}

/** The quantile `q` of what a histogram counted between two readings (`before` null: ever); null if that is nothing. */
export function quantile(before, after, name, q) {
  const buckets = new Map();
  for (const [reading, sign] of [[after, 1], [before, -1]]) {
    for (const {labels, value} of reading?.samples.get(`${name}_bucket`) ?? []) {
      const bound = numberOf(labels.le);
      buckets.set(bound, (buckets.get(bound) ?? 0) + sign * value);
    }
  }
  const bounds = [...buckets.keys()].sort((a, b) => a - b);
  const total = buckets.get(Infinity) ?? 0;
  if (!(total > 0)) return null;
  const rank = q * total;
  let below = 0;
  let low = 0;
  for (const bound of bounds) {
    const count = buckets.get(bound);
    if (count >= rank && count > below) {
      return bound === Infinity ? low : low + ((bound - low) * (rank - below)) / (count - below);
    }
    below = count;
    low = bound;
  }
  return low;
}
