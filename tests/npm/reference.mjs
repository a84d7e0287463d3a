// Writes what the reference tokenizer makes of generated texts: a JSON array of {text, ids}.
//   node reference.mjs NODE_MODULES TOKENIZER_JSON COUNT SEED > reference.json
// The reference is Hugging Face's tokenizers library (Rust), in the build that npm has for this platform.
import {createRequire} from 'node:module';
import {resolve} from 'node:path';

const [modules, tokenizerJson, count, seed] = process.argv.slice(2);
const {Tokenizer} = createRequire(resolve(modules, 'x'))('@anush008/tokenizers');
const tokenizer = Tokenizer.fromFile(tokenizerJson);

// mulberry32: the same texts on every machine.
let state = Number(seed) >>> 0;
function random(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const between = (low, high) => low + random(high - low + 1);
const character = (low, high) => String.fromCodePoint(between(low, high));

function anyCharacter() {
  for (;;) {
    const c = pick([0x7f, 0x7ff, 0xffff, 0x1ffff, 0x10ffff]);
    const at = random(c + 1);
    if (at < 0xd800 || at > 0xdfff) return String.fromCodePoint(at);
  }
}

const words = ['the', 'Hello', 'world', 'tokenizer', 'x', 'ISO', 'don', 'naïve', 'Straße', 'été', '中文', '分词', 'こんにちは',
  '한국어', 'Привет', 'שלום', 'مرحبا', 'हिन्दी', 'ไทย', 'ελληνικά', 'camelCase', 'int', 'return', 'fn', 'https', 'www'];
const spaces = [' ', '  ', '\n', '\r\n', '\t', '\u00a0', '\u3000', '\u2028', '\u2003', '\u0085', '\u180e', '\ufeff', '\u200b',
  '\u1680', '\u202f', '\u000b', '\u000c', '\u001c', '\u001f', '\r'];
const contractions = ["'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'x", "'ſ", '’s', "''s", "'", "'l", "'v"];
const added = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<think>', '</think>', '<tool_call>', '</tool_call>',
  '<tool_response>', '<|fim_prefix|>', '<|im_', '|>', '<|', '<', '>', '<think', '</', '<|im_end|', '<<|im_end|>>'];

const kinds = [
  anyCharacter,
  () => character(0x20, 0x7e),
  () => pick(words),
  () => ' ' + pick(words),
  () => pick(spaces).repeat(between(1, 4)),
  () => pick(contractions),
  () => pick(added),
  () => String(random(100000)),
  () => character(0x300, 0x36f),                                    // combining marks, alone
  () => pick(['a', 'E', 'o', 'ñ', 'ạ', 'が', 'ก', 'ש', '가', '<', '>', '='])
        + [...Array(between(1, 4))].map(() => character(0x300, 0x36f)).join(''),
  () => pick(['が', 'か', 'ハ', 'は']) + pick(['\u3099', '\u309a']),
  () => character(0x1100, 0x1112) + character(0x1161, 0x1175) + pick(['', character(0x11a8, 0x11c2)]),
  () => character(0xac00, 0xd7a3) + character(0x11a7, 0x11c3),
  () => pick([0x2126, 0x212a, 0x212b, 0x1fef, 0x37e, 0xf900, 0x2f800, 0x340, 0x343, 0x344, 0x387, 0x958, 0x2adc, 0xfb1d,
              0x1d15e, 0x1109a, 0x11938, 0x1e9b, 0x3f4, 0x2000, 0x2329])
        .toString(16).replace(/.+/, (hex) => String.fromCodePoint(parseInt(hex, 16))),
  () => character(0x900, 0xdff),                                    // Indic scripts with their signs
  () => character(0x0591, 0x05f4),
  () => character(0x0600, 0x06ff),
  () => character(0xe00, 0xeff),
  () => character(0xf00, 0xfff),
  () => character(0x1e00, 0x1fff),
  () => character(0x2000, 0x2bff),
  () => character(0x3000, 0x30ff),
  () => character(0x4e00, 0x9fff),
  () => character(0x1f300, 0x1faff),
  () => pick(['👩', '👨', '👧', '🏽', '🇫🇷', '❤️', '\u200d', '\ufe0f', '\u20e3']),
  () => pick(['!', '.', '-', '=', '#', '/', '"', '{', '}', '(', ')', ';', ':', ',', '—', '…']).repeat(between(1, 6)),
  () => pick(['a', 'A', 'ab', 'é', '中', '0', '\n', ' ', '\u0301', '!', '\u0316\u0301']).repeat(between(1, 40)),
];

function text() {
  const length = pick([1, 2, 3, 5, 8, 20, 60]);
  const few = random(2) ? kinds : [pick(kinds), pick(kinds), pick(kinds)];
  let made = '';
  for (let i = 0; i < length; ++i) made += pick(few)();
  return made;
}

// The library's NFC knows Unicode 9: marks that came later (U+09FE, U+0EBA) it leaves unordered. Texts where that
// matters are not compared, since NFC itself is what is wanted there.
const normalizer = tokenizer.getNormalizer();
const cases = [];
while (cases.length < Number(count)) {
  const made = text();
  if (normalizer.normalizeString(made) !== made.normalize('NFC')) continue;
  const encoding = await tokenizer.encode(made, null, {addSpecialTokens: false});
  cases.push(JSON.stringify({text: made, ids: Array.from(encoding.getIds())}));
}
process.stdout.write('[\n' + cases.join(',\n') + '\n]\n');
