// Elements that the pages share.

/** An element with properties and children. */
export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') node.className = value;
    else if (key in node && !key.includes('-')) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const svg = 'http://www.w3.org/2000/svg';

export function icon(name) {
  const node = document.createElementNS(svg, 'svg');
  const use = document.createElementNS(svg, 'use');
  node.setAttribute('class', 'icon');
  node.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', `#i-${name}`);
  node.append(use);
  return node;
}

/** Copies `text`, and says so on the button for a moment. */
export async function copyText(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that did not come by https or from this machine have no clipboard object.
    const area = element('textarea', {class: 'unseen', value: text, readOnly: true});
    document.body.append(area);
    area.select();
    done = document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const word = button.querySelector('.word') ?? button;
  const before = word.dataset.before ?? word.textContent;
  word.dataset.before = before;
  word.textContent = done ? 'Copied' : 'Cannot copy';
  setTimeout(() => { word.textContent = before; }, 1500);
}

const titles = {
  key: 'The server asks for a key',
  wrongkey: 'The server does not take this key',
  busy: 'The server has too much to do',
  unavailable: 'The server is not ready',
  full: 'This is more than fits the context',
  refused: 'The server refused the request',
  server: 'The server failed',
  gone: 'No connection',
  broken: 'The answer is not complete',
};

/** `actions`: {retry(), useKey(key, keep), begin()}, or null where nothing can be done any more. */
export function failureBox(failure, actions) {
  const box = element('div', {class: 'failure'}, element('strong', {}, titles[failure.kind] ?? 'Something went wrong'),
    element('span', {}, failure.message));
  if (!actions) return box;
  box.setAttribute('role', 'alert');
  if (failure.isAboutKey) {
    const key = element('input', {type: 'password', autocomplete: 'off', required: true, placeholder: 'API key'});
    key.setAttribute('aria-label', 'API key');
    const keep = element('input', {type: 'checkbox'});
    const form = element('form', {class: 'keyform'}, key, element('button', {type: 'submit', class: 'button main'}, 'Use it'),
      element('label', {class: 'check'}, keep, 'Keep it until this tab is closed'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      actions.useKey(key.value.trim(), keep.checked);
    });
    box.append(form);
    return box;
  }
  const row = element('div', {class: 'actions'});
  const isFull = failure.kind === 'full'; // the same would fail again
  const button = element('button', {type: 'button', class: 'button'}, isFull ? 'New conversation' : 'Try again');
  button.addEventListener('click', () => (isFull ? actions.begin() : actions.retry()));
  row.append(button);
  if (isFull) row.append(element('span', {}, 'or make the message shorter with its pencil'));
  if (failure.retryAfter !== null) row.append(element('span', {}, `in about ${failure.retryAfter} ${failure.retryAfter === 1 ? 'second' : 'seconds'}`));
  box.append(row);
  return box;
}
