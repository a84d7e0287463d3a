// What a conversation looks like: one element per turn. Knows messages and what a person can ask for, not the server.
import {Failure} from './api.js';
import {copyText, element, failureBox, icon} from './dom.js';
import {renderMarkdown} from './markdown.js';

function tool(name, label, word, act) {
  const button = element('button', {type: 'button', class: 'quiet', title: label}, icon(name));
  if (word) button.append(element('span', {class: 'word'}, word));
  button.setAttribute('aria-label', label);
  button.addEventListener('click', () => act(button));
  return button;
}

const number = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const small = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});
const counted = (count, word) => `${number.format(count)} ${word}${count === 1 ? '' : 's'}`;

function duration(milliseconds) {
  if (milliseconds < 1000) return `${number.format(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${small.format(milliseconds / 1000)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** What was measured of an answer, in words. */
export function figuresOf({usage, timing, finish, stopped, most}) {
  const parts = [];
  if (stopped) parts.push('stopped');
  if (finish === 'length') {
    parts.push(most != null && usage?.completion >= most ? 'cut off: no more tokens are allowed' : 'cut off: the context is full');
  }
  if (usage) parts.push(counted(usage.completion, 'token'));
  const written = timing?.written ?? usage?.completion;
  if (written > 0 && timing?.writing > 0) parts.push(`${small.format(written / (timing.writing / 1000))} tokens/s`);
  if (timing?.first != null) parts.push(`first after ${duration(timing.first)}`);
  if (usage?.cached != null) parts.push(`${number.format(usage.cached)} of ${counted(usage.prompt, 'prompt token')} from the cache`);
  return parts.join(' · ');
}

/** A person's message. `resend(text)` is called with its new text. */
export function userTurn(message, {resend}) {
  const said = element('div', {class: 'said'}, message.content);
  const tools = element('div', {class: 'tools'});
  const node = element('li', {class: 'turn user'}, element('h2', {class: 'unseen'}, 'You'), said, tools);
  tools.append(
    tool('copy', 'Copy the message', '', (button) => copyText(message.content, button)),
    tool('edit', 'Change the message and send it again', '', () => {
      const area = element('textarea', {value: message.content, rows: Math.min(message.content.split('\n').length + 1, 12)});
      area.setAttribute('aria-label', 'Your message');
      const cancel = element('button', {type: 'button', class: 'button'}, 'Cancel');
      const form = element('form', {class: 'edit'}, area,
        element('div', {class: 'end'}, cancel, element('button', {type: 'submit', class: 'button main'}, 'Send')));
      const close = () => {
        form.replaceWith(said, tools);
        tools.lastChild.focus();
      };
      cancel.addEventListener('click', close);
      form.addEventListener('submit', (event) => {
        event.preventDefault();
        if (area.value.trim()) resend(area.value);
      });
      area.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          form.requestSubmit();
        } else if (event.key === 'Escape') {
          event.stopPropagation();
          close();
        }
      });
      tools.remove();
      said.replaceWith(form);
      area.focus();
    }));
  return node;
}

/** Where the next words of what is shown in `container` will stand. */
function endOf(container) {
  let node = container;
  while (node.lastElementChild?.matches('p, ul, ol, li, blockquote, h3, h4, h5, h6')) node = node.lastElementChild;
  return node;
}

/** An answer, complete or on its way. Call `update` whenever the message has changed. */
export class AnswerTurn {
  #message;
  #thinking = null;
  #thoughts;
  #foldsItself = false;
  #text = element('div', {class: 'text'});
  #waiting = element('span', {class: 'waiting'});
  #tools = element('div', {class: 'tools'});
  #failure = null;
  #actions;

  /** `actions`: {regenerate(), retry(), useKey(key, keep), begin()}. */
  constructor(message, actions) {
    this.#message = message;
    this.#actions = actions;
    this.node = element('li', {class: 'turn assistant'}, element('h2', {class: 'unseen'}, 'Answer'), this.#text, this.#tools);
  }

  /** `isRunning`: more is to come; `isLast`: it can be written anew. */
  update({isRunning, isLast}) {
    this.#updateThoughts(isRunning);
    renderMarkdown(this.#text, this.#message.content);
    const thinks = isRunning && this.#message.reasoning && !this.#message.content;
    if (isRunning) endOf(thinks ? this.#thoughts : this.#text).append(this.#waiting);
    else this.#waiting.remove();
    this.node.setAttribute('aria-busy', String(isRunning));
    this.#tools.replaceChildren();
    if (isRunning) this.#showProgress();
    else this.#showTools(isLast);
    if (!isRunning) this.#showFailure(isLast);
  }

  #updateThoughts(isRunning) {
    const {reasoning, content, timing} = this.#message;
    if (!reasoning) return;
    if (!this.#thinking) {
      this.#thoughts = element('div', {class: 'thoughts text'});
      this.#thinking = element('details', {class: 'thinking'}, element('summary', {}, ''), this.#thoughts);
      this.#thinking.open = isRunning && !content;
      this.#foldsItself = this.#thinking.open;
      // Whoever folds or unfolds it by hand has decided.
      this.#thinking.firstChild.addEventListener('click', () => { this.#foldsItself = false; });
      this.node.insertBefore(this.#thinking, this.#text);
    }
    this.#waiting.remove();
    renderMarkdown(this.#thoughts, reasoning);
    const isThinking = isRunning && !content;
    const took = timing?.thinking != null ? `Thought for ${duration(timing.thinking)}` : 'Thoughts';
    const title = isThinking ? 'Thinking…' : took;
    if (this.#thinking.firstChild.textContent !== title) this.#thinking.firstChild.textContent = title;
    if (!isThinking && this.#foldsItself) {
      this.#thinking.open = false;
      this.#foldsItself = false;
    }
  }

  #showProgress() {
    const figures = figuresOf(this.#message);
    // Not read out: it changes with every token.
    if (figures) this.#tools.append(element('span', {class: 'progress', 'aria-hidden': 'true'}, figures));
  }

  #showTools(isLast) {
    const {content} = this.#message;
    if (content) this.#tools.append(tool('copy', 'Copy the answer', 'Copy', (button) => copyText(content, button)));
    if (isLast && !this.#message.failure) {
      this.#tools.append(tool('again', 'Write another answer', 'Regenerate', () => this.#actions.regenerate()));
    }
    const figures = figuresOf(this.#message);
    if (figures) this.#tools.append(element('span', {class: 'figures'}, figures));
  }

  /** Says what went wrong, where the answer would be, and what can be done. */
  #showFailure(isLast) {
    const {failure} = this.#message;
    if (!failure || this.#failure) return;
    this.#failure = failureBox(new Failure(failure.kind, failure.message, failure.retryAfter ?? null), isLast ? this.#actions : null);
    this.node.append(this.#failure);
  }
}
