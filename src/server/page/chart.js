// Small charts of the last two minutes.
import {element} from './dom.js';

const svg = 'http://www.w3.org/2000/svg';
const width = 240;
const height = 88;
export const span = 120_000; // milliseconds

const shape = (name, attributes) => {
  const node = document.createElementNS(svg, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};

/** The next of 1, 2, 5, 10, 20, ... that is not below `value`. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * unit).find((step) => step >= value * 0.999) ?? 10 * unit;
}

/** A chart of up to two series, as lines or, filled, one upon the other. */
export class Chart {
  #times = [];
  #values = [];
  #paths;
  #image = shape('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img'});
  #most = element('span', {class: 'most'});
  #options;

  /** `options`: {title, names, format(value), filled, top: a fixed upper end}. */
  constructor(options) {
    this.#options = options;
    this.#values = options.names.map(() => []);
    for (const y of [1, height / 2]) {
      this.#image.append(shape('line', {class: 'grid', x1: 0, x2: width, y1: y, y2: y}));
    }
    this.#paths = options.names.map((_, i) =>
      shape('path', {class: `${options.filled ? 'area' : 'line'}${i > 0 ? ' second' : ''}`}));
    this.#image.append(...[...this.#paths].reverse());
    this.#most.setAttribute('aria-hidden', 'true');
    this.node = element('div', {class: 'chart'}, this.#image, this.#most);
  }

  /** Adds values (null: there is none) at `time`; `top` is the upper end from now on. */
  add(time, values, top = this.#options.top) {
    this.#times.push(time);
    values.forEach((value, i) => this.#values[i].push(Number.isFinite(value) ? value : null));
    while (this.#times.length > 1 && this.#times[1] < time - span) {
      this.#times.shift();
      for (const series of this.#values) series.shift();
    }
    this.#draw(time, top);
  }

  #draw(now, top) {
    const {filled, format, title, names} = this.#options;
    const sums = this.#values.map((series, i) =>
      series.map((value, at) => (filled && i > 0 && value !== null ? value + (this.#values[0][at] ?? 0) : value)));
    const all = sums.flat().filter((value) => value !== null);
    const most = top ?? roundUp(Math.max(0, ...all));
    const x = (time) => (width * (1 - (now - time) / span)).toFixed(1);
    const y = (value) => (height - 1 - (Math.min(value, most) / (most || 1)) * (height - 2)).toFixed(1);
    sums.forEach((series, i) => {
      let path = '';
      let begin = -1;
      series.forEach((value, at) => {
        if (value === null) return;
        const isFirst = at === 0 || series[at - 1] === null;
        if (isFirst) begin = at;
        path += `${isFirst ? 'M' : 'L'}${x(this.#times[at])} ${y(value)}`;
        const isLast = at + 1 === series.length || series[at + 1] === null;
        if (isLast && isFirst) path += 'h0.8'; // a single value is a dot
        if (isLast && filled) path += `V${height}H${x(this.#times[begin])}Z`;
      });
      this.#paths[i].setAttribute('d', path);
    });
    this.#most.textContent = all.length > 0 ? format(most) : '';
    const words = names.map((name, i) => {
      const known = this.#values[i].filter((value) => value !== null);
      if (known.length === 0) return `${name}: nothing yet`;
      return `${name}: from ${format(Math.min(...known))} to ${format(Math.max(...known))}, now ${format(known.at(-1))}`;
    });
    this.#image.setAttribute('aria-label', `${title}, the last two minutes. ${words.join('; ')}`);
  }
}
