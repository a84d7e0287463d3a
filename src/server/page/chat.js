// The chat page: one conversation at a time, one answer at a time.
import {chat, Failure, models} from './api.js';
import {element, failureBox, icon} from './dom.js';
import {apiKey, defaults, loadConversations, loadSettings, requestOf, saveConversations, saveSettings} from './store.js';
import {AnswerTurn, userTurn} from './turns.js';

const part = (id) => document.getElementById(id);
const main = part('main');
const turns = part('turns');
const input = part('input');
const form = part('settings-form');

apiKey.load();
let settings = loadSettings();
let conversations = loadConversations();
let current = blank();
let running = null; // {controller, message, turn} while an answer is written

function blank() {
  return {id: `${Date.now()}-${Math.random()}`, title: '', changed: Date.now(), messages: []};
}

/** Says something to those who do not see the page. */
function announce(text) {
  part('status').textContent = text;
}

// --- Scrolling: the end stays in view unless somebody has scrolled away from it. ---

let follows = true;
const isAtEnd = () => main.scrollHeight - main.scrollTop - main.clientHeight < 48;

function toEnd() {
  main.scrollTop = main.scrollHeight;
  follows = true;
  part('latest').hidden = true;
}

main.addEventListener('scroll', () => {
  follows = isAtEnd();
  part('latest').hidden = follows;
}, {passive: true});
part('latest').addEventListener('click', () => {
  toEnd();
  input.focus();
});
new ResizeObserver(() => { if (follows) toEnd(); }).observe(main);

// --- The conversation ---

function actionsFor(message) {
  return {
    regenerate: () => answerAnew(message),
    retry: () => answerAnew(message),
    useKey: (key, keep) => {
      useKey(key, keep);
      answerAnew(message);
    },
    begin: () => open(blank()),
  };
}

function showTurns() {
  const {messages} = current;
  turns.replaceChildren(...messages.map((message, i) => {
    if (message.role === 'user') return userTurn(message, {resend: (text) => resend(message, text)});
    const turn = new AnswerTurn(message, actionsFor(message));
    turn.update({isRunning: false, isLast: i === messages.length - 1});
    return turn.node;
  }));
  part('welcome').hidden = messages.length > 0;
}

function keep() {
  // Another tab may have kept others meanwhile.
  conversations = loadConversations().filter((one) => one.id !== current.id);
  if (current.messages.length > 0) {
    current.changed = Date.now();
    current.title = current.messages[0].content.trim().replace(/\s+/g, ' ').slice(0, 80);
    conversations.unshift(current);
  }
  saveConversations(conversations);
}

function send(text) {
  if (running || !text.trim()) return;
  current.messages.push({role: 'user', content: text});
  showTurns();
  answer();
}

function resend(message, text) {
  stop();
  current.messages.splice(current.messages.indexOf(message));
  send(text);
}

function answerAnew(message) {
  stop();
  const at = current.messages.indexOf(message);
  if (at < 0) return;
  current.messages.splice(at);
  showTurns();
  answer();
}

function take(message, chunk, timing) {
  if (chunk.usage) {
    message.usage = {
      prompt: Number(chunk.usage.prompt_tokens) || 0,
      completion: Number(chunk.usage.completion_tokens) || 0,
      // Known at the end only.
      cached: chunk.usage.prompt_tokens_details?.cached_tokens ?? null,
    };
  }
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.finish_reason) message.finish = choice.finish_reason;
  const {reasoning_content: reasoning, content} = choice.delta ?? {};
  if (!reasoning && !content) return;
  const now = performance.now();
  const tokens = message.usage?.completion ?? 0;
  timing.first ??= now;
  timing.firstTokens ??= tokens;
  timing.last = now;
  timing.lastTokens = tokens;
  if (reasoning) message.reasoning = (message.reasoning ?? '') + reasoning;
  if (content) {
    if (!message.content && message.reasoning) message.timing.thinking = now - timing.first;
    // The newlines that a model writes between its thoughts and its answer belong to neither.
    message.content = message.content ? message.content + content : content.trimStart();
  }
}

function measure(message, timing) {
  const end = performance.now();
  if (timing.first === null) return;
  message.timing.first = timing.first - timing.begin;
  // Of the first piece's tokens nobody saw how long they took. What comes in one piece says nothing about the
  // time between its tokens.
  const writing = timing.last - timing.first;
  const isLong = writing > 20;
  message.timing.writing = isLong ? writing : end - timing.begin;
  message.timing.written = isLong ? timing.lastTokens - timing.firstTokens : timing.lastTokens;
}

async function answer() {
  const request = requestOf(settings, current.messages);
  const message = {role: 'assistant', content: '', timing: {}, most: request.max_completion_tokens ?? null};
  current.messages.push(message);
  keep();
  const turn = new AnswerTurn(message, actionsFor(message));
  turns.append(turn.node);
  turn.update({isRunning: true, isLast: true});
  const controller = new AbortController();
  const own = {controller, message, turn};
  running = own;
  showRunning();
  focusInput();
  announce('The answer begins.');
  toEnd();

  // Tokens come faster than frames: each frame shows what there is.
  let frame = 0;
  const draw = () => {
    frame = 0;
    measure(message, timing);
    turn.update({isRunning: running === own, isLast: true});
    if (follows) toEnd();
  };
  const timing = {begin: performance.now(), first: null, firstTokens: null, last: null, lastTokens: 0};
  let failure = null;
  try {
    for await (const chunk of chat(request, {key: apiKey.value, signal: controller.signal})) {
      take(message, chunk, timing);
      frame ||= requestAnimationFrame(draw);
    }
  } catch (error) {
    if (error.name === 'AbortError') message.stopped = true;
    else failure = error instanceof Failure ? error : new Failure('broken', String(error.message ?? error));
  }
  cancelAnimationFrame(frame);
  measure(message, timing);
  if (running === own) running = null;
  finish(own, failure);
}

function finish({message, turn}, failure) {
  if (failure) message.failure = {kind: failure.kind, message: failure.message, retryAfter: failure.retryAfter};
  const isShown = current.messages.includes(message);
  turn.update({isRunning: false, isLast: current.messages.at(-1) === message});
  showRunning();
  if (!isShown) return;
  if (follows) toEnd();
  keep();
  if (failure) return; // its box is an alert
  announce(message.stopped ? 'Stopped.' : message.content ? `Answer: ${message.content}` : 'The answer is empty.');
}

function stop() {
  if (!running) return;
  running.message.stopped = true;
  running.controller.abort();
  running = null;
  showRunning();
}

function showRunning() {
  const isRunning = running !== null;
  const hadFocus = document.activeElement === part(isRunning ? 'send' : 'stop');
  part('send').hidden = isRunning;
  part('stop').hidden = !isRunning;
  part('send').disabled = !input.value.trim();
  if (hadFocus) input.focus({preventScroll: true});
}

function open(conversation) {
  stop();
  current = conversation;
  showTurns();
  toEnd();
  focusInput();
}

// --- Writing ---

/** Unless something else has the focus. On a touch screen it would bring the keyboard up. */
function focusInput() {
  if (document.activeElement === document.body && matchMedia('(hover: hover)').matches) input.focus({preventScroll: true});
}

function fit() {
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight}px`;
  part('send').disabled = !input.value.trim();
}

input.addEventListener('input', fit);
input.addEventListener('keydown', (event) => {
  // While an input method composes a word, Enter belongs to it.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  part('composer').requestSubmit();
});
part('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running || !input.value.trim()) return;
  const text = input.value;
  input.value = '';
  fit();
  send(text);
});
part('stop').addEventListener('click', stop);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && running && !document.querySelector('dialog[open]')) stop();
});
part('starters').addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button) send(button.textContent);
});
part('new').addEventListener('click', () => open(blank()));
addEventListener('pagehide', () => {
  if (!running) return;
  stop();
  keep();
});

// --- Dialogs ---

for (const dialog of document.querySelectorAll('dialog')) {
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
}

const fields = () => [...form.elements].filter((field) => field.name in defaults);

function fillSettings() {
  for (const field of fields()) field.value = settings[field.name];
  form.elements.key.value = apiKey.value;
  form.elements.keep.checked = apiKey.isKept;
}

part('open-settings').addEventListener('click', () => {
  fillSettings();
  part('settings').showModal();
});
form.addEventListener('change', () => {
  for (const field of fields()) if (field.validity.valid) settings[field.name] = field.value;
  saveSettings(settings);
  const key = form.elements.key.value.trim();
  if (key !== apiKey.value || form.elements.keep.checked !== apiKey.isKept) useKey(key, form.elements.keep.checked);
});
part('reset').addEventListener('click', () => {
  settings = {...defaults, model: settings.model};
  saveSettings(settings);
  fillSettings();
});

function useKey(key, keepIt) {
  apiKey.set(key, keepIt);
  findModels();
}

const when = new Intl.DateTimeFormat(undefined, {dateStyle: 'medium', timeStyle: 'short'});

function showConversations() {
  part('conversations').replaceChildren(...conversations.map((conversation) => {
    const button = element('button', {type: 'button', class: 'open'}, element('span', {}, conversation.title || 'Without words'),
      element('span', {class: 'when'}, when.format(conversation.changed)));
    if (conversation.id === current.id) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => {
      part('history').close();
      open(conversation);
    });
    const remove = element('button', {type: 'button', class: 'quiet'}, icon('remove'));
    remove.setAttribute('aria-label', `Delete: ${conversation.title}`);
    remove.addEventListener('click', () => {
      conversations = conversations.filter((one) => one.id !== conversation.id);
      saveConversations(conversations);
      if (conversation.id === current.id) forgetCurrent();
      showConversations();
      (part('conversations').querySelector('button') ?? part('history').querySelector('button')).focus();
    });
    return element('li', {}, button, remove);
  }));
  if (conversations.length === 0) part('conversations').append(element('li', {class: 'muted'}, 'None yet.'));
  part('forget').disabled = conversations.length === 0;
}

function forgetCurrent() {
  stop();
  current = blank();
  showTurns();
}

part('open-history').addEventListener('click', () => {
  conversations = loadConversations();
  showConversations();
  part('history').showModal();
});
part('forget').addEventListener('click', () => {
  conversations = [];
  saveConversations(conversations);
  forgetCurrent();
  showConversations();
});

// --- The server ---

function showModels(names) {
  const select = part('model');
  if (!names.includes(settings.model)) settings.model = names[0] ?? '';
  select.replaceChildren(...names.map((name) => element('option', {value: name}, name)));
  select.value = settings.model;
  select.disabled = names.length < 2;
  select.classList.toggle('only', names.length < 2);
}

part('model').addEventListener('change', (event) => {
  settings.model = event.target.value;
  saveSettings(settings);
});

let retryTimer = 0;
let said = ''; // what the box about the server says

async function findModels() {
  clearTimeout(retryTimer);
  try {
    showModels(await models(apiKey.value));
    part('server').replaceChildren();
    said = '';
  } catch (error) {
    const failure = error instanceof Failure ? error : new Failure('broken', 'The server sent something that is no list of models.');
    const isNew = failure.message !== said || failure.isAboutKey;
    said = failure.message;
    if (isNew) part('server').replaceChildren(failureBox(failure, {retry: findModels, useKey}));
    // A model that is being loaded, or a server that is started anew, will be there without being asked for.
    if (['unavailable', 'gone'].includes(failure.kind)) retryTimer = setTimeout(findModels, (failure.retryAfter ?? 3) * 1000);
  }
}

showTurns();
showRunning();
focusInput();
findModels();
