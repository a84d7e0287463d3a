// What the page keeps in the browser: settings, conversations and, if asked to, the key.

const settingsName = 'inferno.settings';
const conversationsName = 'inferno.conversations';
const keyName = 'inferno.key';
const maxConversations = 100;

export const defaults = {
  model: '', system: '', temperature: '', top_p: '', top_k: '', min_p: '', max_tokens: '', seed: '', thinking: 'auto',
};

function read(storage, name) {
  try {
    return JSON.parse(storage.getItem(name));
  } catch {
    return null; // no storage, or not what this page has written
  }
}

function write(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function loadSettings() {
  const stored = read(localStorage, settingsName) ?? {};
  const settings = {...defaults};
  for (const name of Object.keys(defaults)) {
    if (typeof stored[name] === 'string') settings[name] = stored[name];
  }
  return settings;
}

export const saveSettings = (settings) => write(localStorage, settingsName, settings);

const isMessage = (message) => (message?.role === 'user' || message?.role === 'assistant') &&
  typeof message.content === 'string';

/** Conversations, the latest first: {id, title, changed, messages}. */
export function loadConversations() {
  const stored = read(localStorage, conversationsName);
  if (!Array.isArray(stored)) return [];
  return stored.filter((one) => typeof one?.id === 'string' && typeof one.title === 'string' &&
    Number.isFinite(one.changed) && Array.isArray(one.messages) && one.messages.every(isMessage));
}

/** Keeps as many as there is room for, the latest first. */
export function saveConversations(conversations) {
  for (let count = Math.min(conversations.length, maxConversations); count > 0; count = Math.floor(count / 2)) {
    if (write(localStorage, conversationsName, conversations.slice(0, count))) return;
  }
  try {
    localStorage.removeItem(conversationsName);
  } catch {
    // Then there is nothing to remove either.
  }
}

/** The API key: in memory, or in this tab's storage if its owner wants that. Never in localStorage. */
export const apiKey = {
  value: '',
  isKept: false,
  load() {
    const stored = read(sessionStorage, keyName);
    this.isKept = typeof stored === 'string' && stored !== '';
    this.value = this.isKept ? stored : '';
  },
  set(value, keep) {
    this.value = value;
    this.isKept = keep && value !== '' && write(sessionStorage, keyName, value);
    if (this.isKept) return;
    try {
      sessionStorage.removeItem(keyName);
    } catch {
      // Then it is not there.
    }
  },
};

/** The request for the answer that follows `messages`. What is not set, the server decides. */
export function requestOf(settings, messages) {
  const request = {messages: []};
  if (settings.model) request.model = settings.model;
  if (settings.system.trim()) request.messages.push({role: 'system', content: settings.system});
  messages.forEach(({role, content}, i) => {
    const next = messages[i + 1];
    // What failed is not asked once more with whatever is asked next: that would fail, too.
    if (role === 'user' && next?.failure && !next.content) return;
    if (role === 'user' || content) request.messages.push({role, content});
  });
  for (const name of ['temperature', 'top_p', 'min_p', 'top_k', 'seed']) {
    const value = Number(settings[name]);
    if (settings[name].trim() && Number.isFinite(value)) request[name] = value;
  }
  const most = Number(settings.max_tokens);
  if (settings.max_tokens.trim() && Number.isInteger(most)) request.max_completion_tokens = most;
  if (settings.thinking !== 'auto') request.chat_template_kwargs = {enable_thinking: settings.thinking === 'on'};
  return request;
}
