// The part of Markdown that answers are written in. Everything becomes elements and text nodes; nothing of the text
// is ever read as HTML. Each step takes time linear in the text, whatever is in it.
import {copyText, element} from './dom.js';

const maxDepth = 8; // lists and quotes within each other
const maxInline = 50_000; // characters of one paragraph that are looked at for marks

/** Shows `text` in `container`. What is already there from an earlier, shorter text stays as it is. */
export function renderMarkdown(container, text) {
  const shown = (container.markdownBlocks ??= []);
  const blocks = split(text.replace(/\r\n?/g, '\n').replace(/\0/g, '\ufffd').split('\n'), 0);
  let same = 0;
  while (same < blocks.length && same < shown.length && blocks[same].key === shown[same].key) ++same;
  for (const {node} of shown.splice(same)) node.remove();
  for (const block of blocks.slice(same)) {
    const node = build(block, 0);
    container.append(node);
    shown.push({key: block.key, node});
  }
}

const indentOf = (line) => line.length - line.trimStart().length;
const isBlank = (line) => line.trim() === '';

function fenceOf(line) {
  const match = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line);
  if (!match || (match[1][0] === '`' && match[2].includes('`'))) return null;
  return {mark: match[1], language: match[2].trim().split(/\s/, 1)[0].slice(0, 40), indent: indentOf(line)};
}

function headingOf(line) {
  const match = /^ {0,3}(#{1,6})(?=\s|$)/.exec(line);
  if (!match) return null;
  return {level: match[1].length, text: line.slice(match[0].length).trim().replace(/(^|\s)#+$/, '').trim()};
}

const isRule = (line) => indentOf(line) < 4 && /^(-{3,}|\*{3,}|_{3,})$/.test(line.replace(/\s/g, ''));

function markerOf(line) {
  const match = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/.exec(line);
  if (!match || isRule(line)) return null;
  return {
    indent: match[1].length,
    ordered: match[2].length > 1,
    number: Number.parseInt(match[2], 10),
    offset: match[1].length + match[2].length + Math.min(Math.max(match[3].length, 1), 4),
  };
}

function cells(line) {
  const row = line.trim().replace(/^\|/, '');
  const found = [''];
  for (let i = 0; i < row.length; ++i) {
    if (row[i] === '\\' && row[i + 1] === '|') found[found.length - 1] += row[++i];
    else if (row[i] === '|') found.push('');
    else found[found.length - 1] += row[i];
  }
  if (found.length > 1 && isBlank(found.at(-1))) found.pop();
  return found.map((cell) => cell.trim());
}

function alignmentsOf(header, line) {
  if (line === undefined || !header.includes('|') || !/^[\s|:-]+$/.test(line) || !line.includes('-')) return null;
  const marks = cells(line);
  if (!marks.every((mark) => /^:?-+:?$/.test(mark)) || marks.length !== cells(header).length) return null;
  return marks.map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : ''));
}

const beginsBlock = (line) => isRule(line) || /^ {0,3}>/.test(line) || fenceOf(line) || headingOf(line) || markerOf(line);

/** The blocks of `lines`: {kind, lines, key, ...}. */
function split(lines, depth) {
  const blocks = [];
  const add = (kind, from, to, more = {}) => {
    const own = lines.slice(from, to);
    blocks.push({kind, lines: own, key: `${kind}\n${more.open ? 'open' : ''}\n${own.join('\n')}`, ...more});
    return to;
  };
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    const fence = fenceOf(line);
    const deeper = depth < maxDepth;
    if (isBlank(line)) {
      ++i;
    } else if (fence) {
      let end = i + 1;
      const closes = (text) => text.length >= fence.mark.length && text === fence.mark[0].repeat(text.length);
      while (end < lines.length && !closes(lines[end].trim())) ++end;
      i = Math.min(add('code', i, end, {fence, open: end === lines.length}) + 1, lines.length);
    } else if (headingOf(line)) {
      i = add('heading', i, i + 1, headingOf(line));
    } else if (isRule(line)) {
      i = add('rule', i, i + 1);
    } else if (deeper && /^ {0,3}>/.test(line)) {
      let end = i + 1;
      while (end < lines.length && /^ {0,3}>/.test(lines[end])) ++end;
      i = add('quote', i, end);
    } else if (deeper && markerOf(line)) {
      i = add('list', i, endOfList(lines, i), {marker: markerOf(line)});
    } else if (alignmentsOf(line, lines[i + 1])) {
      let end = i + 2;
      while (end < lines.length && !isBlank(lines[end]) && lines[end].includes('|')) ++end;
      i = add('table', i, end, {alignments: alignmentsOf(line, lines[i + 1])});
    } else {
      let end = i + 1;
      while (end < lines.length && !isBlank(lines[end]) && !(deeper && beginsBlock(lines[end])) &&
             !alignmentsOf(lines[end], lines[end + 1])) ++end;
      i = add('paragraph', i, end);
    }
  }
  return blocks;
}

/** Whether `marker` begins the next item of the list that began with `first`. */
const isSibling = (first, marker) => marker && marker.ordered === first.ordered && marker.indent < first.indent + 2;

function endOfList(lines, begin) {
  const first = markerOf(lines[begin]);
  let fence = null;
  let i = begin + 1;
  for (; i < lines.length; ++i) {
    const line = lines[i];
    if (fence) {
      if (line.trim() === fence.mark) fence = null;
      continue;
    }
    if (isBlank(line)) {
      let next = i + 1;
      while (next < lines.length && isBlank(lines[next])) ++next;
      if (next === lines.length) break;
      if (indentOf(lines[next]) < first.indent + 2 && !isSibling(first, markerOf(lines[next]))) break;
      i = next - 1;
      continue;
    }
    if (indentOf(line) >= first.indent + 2) {
      fence = fenceOf(line.trimStart());
    } else if (!isSibling(first, markerOf(line)) && beginsBlock(line)) {
      break;
    }
  }
  return i;
}

function buildList({lines, marker: first}, depth) {
  const list = element(first.ordered ? 'ol' : 'ul');
  if (first.ordered && first.number !== 1) list.start = first.number;
  let item = null;
  let offset = 0;
  let fence = null;
  const finish = () => {
    if (!item) return;
    const blocks = split(item, depth + 1);
    const node = element('li');
    const isLoose = item.some((line, i) => isBlank(line) && i + 1 < item.length);
    blocks.forEach((block, i) => {
      if (i === 0 && block.kind === 'paragraph' && !isLoose) {
        const task = /^\[([ xX])\]\s/.exec(block.lines[0]);
        if (task) block.lines[0] = `${task[1] === ' ' ? '☐' : '☑'} ${block.lines[0].slice(4)}`;
        node.append(inline(block.lines));
      } else {
        node.append(build(block, depth + 1));
      }
    });
    list.append(node);
  };
  for (const line of lines) {
    const marker = fence ? null : markerOf(line);
    if (isSibling(first, marker)) {
      finish();
      offset = marker.offset;
      item = [line.slice(offset)];
    } else {
      item.push(line.slice(Math.min(indentOf(line), offset)));
    }
    const mark = fenceOf(item.at(-1).trimStart());
    if (fence ? item.at(-1).trim() === fence.mark : mark) fence = fence ? null : mark;
  }
  finish();
  return list;
}

function build(block, depth) {
  switch (block.kind) {
    case 'code': return buildCode(block);
    case 'heading': return element(`h${Math.min(block.level + 2, 6)}`, {}, inline([block.text]));
    case 'rule': return element('hr');
    case 'quote': {
      const inner = split(block.lines.map((line) => line.replace(/^ {0,3}> ?/, '')), depth + 1);
      return element('blockquote', {}, ...inner.map((part) => build(part, depth + 1)));
    }
    case 'list': return buildList(block, depth);
    case 'table': return buildTable(block);
    default: return element('p', {}, inline(block.lines));
  }
}

function buildCode({lines, fence}) {
  const unindented = lines.slice(1).map((line) => line.slice(Math.min(indentOf(line), fence.indent)));
  const code = unindented.join('\n');
  const copy = element('button', {type: 'button', class: 'quiet'}, 'Copy');
  copy.setAttribute('aria-label', 'Copy the code');
  copy.addEventListener('click', () => copyText(code, copy));
  return element('div', {class: 'code'},
    element('div', {class: 'top'}, element('span', {}, fence.language), copy),
    element('pre', {tabIndex: 0}, element('code', {}, code)));
}

function buildTable({lines, alignments}) {
  const row = (line, name) => {
    const found = cells(line);
    return element('tr', {}, ...alignments.map((alignment, i) =>
      element(name, {class: alignment, ...(name === 'th' && {scope: 'col'})}, inline([found[i] ?? '']))));
  };
  return element('div', {class: 'table', tabIndex: 0},
    element('table', {}, element('thead', {}, row(lines[0], 'th')),
      element('tbody', {}, ...lines.slice(2).map((line) => row(line, 'td')))));
}

// --- Within a paragraph ---

function inline(lines) {
  const text = lines.map((line) => line.trim()).join('\n');
  const fragment = document.createDocumentFragment();
  if (text.length > maxInline) fragment.append(text);
  else new Inline(text).parse(fragment, 0, text.length, 0);
  return fragment;
}

const isSpace = (c) => c === undefined || /\s/.test(c);
const isWord = (c) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);

class Inline {
  #text;
  #codes = new Map(); // where a code span begins: {from, to, end}
  #hopeless = new Map(); // a mark: within which range nothing closes it
  #isInLink = false;

  constructor(text) {
    this.#text = text;
    this.#findCodes();
  }

  // A run of backticks is closed by the next run of the same length.
  #findCodes() {
    const runs = [];
    for (const match of this.#text.matchAll(/\\`|`+/g)) {
      if (match[0][0] === '`') runs.push({at: match.index, length: match[0].length});
    }
    const nextOfLength = new Map();
    for (let i = runs.length - 1; i >= 0; --i) {
      runs[i].closing = nextOfLength.get(runs[i].length);
      nextOfLength.set(runs[i].length, runs[i]);
    }
    let end = 0;
    for (const run of runs) {
      if (run.at < end || !run.closing) continue;
      end = run.closing.at + run.length;
      this.#codes.set(run.at, {from: run.at + run.length, to: run.closing.at, end});
    }
  }

  parse(parent, from, to, depth) {
    const text = this.#text;
    let plain = from;
    const flush = (end) => {
      text.slice(plain, end).split('\n').forEach((line, i) => {
        if (i > 0) parent.append(element('br'));
        if (line) parent.append(line.replace(/\\([!-/:-@[-`{-~])/g, '$1'));
      });
    };
    for (let i = from; i < to;) {
      const found = this.#at(i, from, to, depth);
      if (!found) {
        i += text[i] === '\\' ? 2 : 1;
        continue;
      }
      if (found.node) {
        flush(i);
        parent.append(found.node);
        plain = found.end;
      }
      i = found.end;
    }
    flush(to);
  }

  /** What begins at `i`: {node, end}, {end} for what is to be passed over as text, or nothing. */
  #at(i, from, to, depth) {
    const text = this.#text;
    switch (text[i]) {
      case '`': {
        const code = this.#codes.get(i);
        if (code && code.end <= to) {
          let inner = text.slice(code.from, code.to).replaceAll('\n', ' ');
          if (/^ .* $/.test(inner) && inner.trim()) inner = inner.slice(1, -1);
          return {node: element('code', {}, inner), end: code.end};
        }
        return {end: i + /^`+/.exec(text.slice(i, i + 200))[0].length};
      }
      case '*':
      case '_':
      case '~': return this.#emphasis(i, from, to, depth);
      case '!':
      case '[': return this.#link(i, to, depth);
      case 'h': return this.#address(i, to);
      default: return null;
    }
  }

  #emphasis(i, from, to, depth) {
    const text = this.#text;
    let length = 1;
    while (i + length < to && text[i + length] === text[i]) ++length;
    const asText = {end: i + length};
    const isLine = text[i] === '~';
    if (length > 3 || (isLine && length !== 2) || depth > maxDepth || isSpace(text[i + length])) return asText;
    if (text[i] === '_' && isWord(text[i - 1])) return asText;
    const mark = text[i].repeat(length);
    const close = this.#closing(mark, i + length, to);
    if (close < 0) return asText;
    const names = isLine ? ['s'] : [['em'], ['strong'], ['strong', 'em']][length - 1];
    const outer = element(names[0]);
    const inner = names[1] ? outer.appendChild(element(names[1])) : outer;
    this.parse(inner, i + length, close, depth + 1);
    return {node: outer, end: close + length};
  }

  /** Where a run of exactly `mark` closes what began before `from`; -1 if nowhere before `to`. */
  #closing(mark, from, to) {
    const text = this.#text;
    const hopeless = this.#hopeless.get(mark);
    if (hopeless && from >= hopeless.from && to <= hopeless.to) return -1;
    for (let i = from; i < to;) {
      const c = text[i];
      if (c === '\\') {
        i += 2;
      } else if (c === '`' && this.#codes.has(i)) {
        i = this.#codes.get(i).end;
      } else if (c === mark[0]) {
        let length = 1;
        while (i + length < to && text[i + length] === c) ++length;
        if (!isSpace(text[i - 1]) && (c !== '_' || !isWord(text[i + length]))) {
          if (length === mark.length) return i;
          // `**a *b***`: the run closes the inner mark first, and this one with what is left.
          if (length === 3) return i + length - mark.length;
        }
        i += length;
      } else {
        ++i;
      }
    }
    this.#hopeless.set(mark, {from, to});
    return -1;
  }

  #link(i, to, depth) {
    const text = this.#text;
    const open = text[i] === '!' ? i + 1 : i;
    if (text[open] !== '[' || this.#isInLink) return null;
    const close = matching(text, open, '[', ']', Math.min(to, open + 1000));
    if (close < 0 || text[close + 1] !== '(') return null;
    const end = matching(text, close + 1, '(', ')', Math.min(to, close + 2000));
    if (end < 0) return null;
    const target = /^\s*<?([^\s<>]*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*$/.exec(text.slice(close + 2, end));
    const anchor = target && linkTo(target[1]);
    if (!anchor) return null;
    // A picture would be fetched from elsewhere: its link is shown.
    if (close === open + 1) {
      anchor.append(target[1]);
    } else {
      this.#isInLink = true;
      this.parse(anchor, open + 1, close, depth + 1);
      this.#isInLink = false;
    }
    return {node: anchor, end: end + 1};
  }

  #address(i, to) {
    const text = this.#text;
    if (this.#isInLink || isWord(text[i - 1])) return null;
    const match = /^https?:\/\/[^\s<>"'`*]+/.exec(text.slice(i, Math.min(to, i + 2000)));
    if (!match) return null;
    let address = match[0].replace(/[.,;:!?\]}]+$/, '');
    if (address.endsWith(')') && !address.includes('(')) address = address.slice(0, -1);
    const anchor = linkTo(address);
    if (!anchor) return null;
    anchor.append(address);
    return {node: anchor, end: i + address.length};
  }
}

function matching(text, at, open, close, limit) {
  let depth = 0;
  for (let i = at; i < limit; ++i) {
    if (text[i] === '\\') ++i;
    else if (text[i] === open) ++depth;
    else if (text[i] === close && --depth === 0) return i;
  }
  return -1;
}

/** An anchor for a web address; null for any other (javascript:, data:, relative ones). */
function linkTo(target) {
  if (!/^https?:\/\//i.test(target)) return null;
  let url;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  return element('a', {href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow'});
}
