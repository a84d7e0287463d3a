// The pages in a browser, against the program.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import {after, before, describe, test} from 'node:test';

import {faultsOfAccess, faultsOfSight, launch, picture, visit} from './browser.mjs';
import {scripted, serve, tale, temporary} from './server.mjs';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const phone = {viewport: {width: 360, height: 740}, hasTouch: true, isMobile: true};
const refused = /Failed to load resource/; // how a browser logs a status that is not 2xx

const input = (page) => page.getByRole('textbox', {name: 'Message', exact: true});
const stop = (page) => page.getByRole('button', {name: 'Stop'});
const answers = (page) => page.locator('.turn.assistant');

async function say(page, text) {
  await input(page).fill(text);
  await input(page).press('Enter');
}

async function finished(page) {
  await page.locator('.turn.assistant[aria-busy="false"] .figures').last().waitFor();
  await stop(page).waitFor({state: 'hidden'});
}

async function set(page, values) {
  await page.getByRole('button', {name: 'Settings'}).click();
  for (const [label, value] of Object.entries(values)) {
    const field = page.getByRole('dialog').getByLabel(label);
    if (label === 'Thinking') await field.selectOption(value);
    else await field.fill(value);
  }
  await page.getByRole('button', {name: 'Done'}).click();
  await page.getByRole('dialog').waitFor({state: 'hidden'});
}

function withServer(name, model, options, body) {
  describe(name, () => {
    const it = {};
    before(async () => { it.server = await serve(model(), ...options); });
    after(() => it.server?.stop());
    body(it);
  });
}

/** Keeps a server busy with `count` requests at once, some of which begin alike. */
const load = (server, count) => Promise.all(Array.from({length: count}, async (_, i) => {
  const prompt = `Once upon a time, in a land far away where number ${i % 7} was king, there lived a small bird who`;
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: 'POST', headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({prompt, max_tokens: 240, temperature: 1, seed: i}),
  });
  await answer.text();
}));

withServer('a chat with the model that ships with the project', () => tale, [], (it) => {
  test('the page may fetch and run nothing but what is its own', async () => {
    // The browser logs what it has refused.
    await visit(browser, it.server, '/', {expected: /Content Security Policy/}, async (page, response) => {
      const policy = response.headers()['content-security-policy'];
      assert.match(policy, /default-src '(none|self)'/);
      assert.doesNotMatch(policy, /unsafe|\*|https?:/);
      assert.equal(await page.evaluate(() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
        return window.ran === true;
      }), false);
    });
  });

  test('an answer streams, is measured, and can be written anew', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {Temperature: '0.8', Seed: '5', 'Most tokens': '160'});
      // Notes how long the answer was at each change.
      await page.evaluate(() => {
        window.lengths = [];
        new MutationObserver(() => {
          const length = document.querySelector('.turn.assistant .text')?.textContent.length ?? 0;
          if (window.lengths.at(-1) !== length) window.lengths.push(length);
        }).observe(document.getElementById('turns'), {childList: true, subtree: true, characterData: true});
      });
      await say(page, 'Tell me a story about a frog.');
      await finished(page);
      const lengths = await page.evaluate(() => window.lengths);
      assert.ok(lengths.length >= 2 && lengths.at(-1) > 50, `it was ${lengths} long`);
      assert.match(await answers(page).locator('.figures').textContent(),
        /\d+ tokens · [\d.,]+ tokens\/s · first after .* · \d+ of \d+ prompt tokens from the cache/);
      const first = await answers(page).locator('.text').textContent();
      assert.match(await page.getByRole('status').textContent(), /^Answer: /);

      await page.getByRole('button', {name: 'Write another answer'}).click();
      await finished(page);
      assert.equal(await answers(page).count(), 1);
      assert.equal(await answers(page).locator('.text').textContent(), first, 'the seed is the same');

      await say(page, 'And then?');
      await finished(page);
      assert.equal(await answers(page).count(), 2);
      const cached = /(\d+) of (\d+) prompt/.exec(await answers(page).last().locator('.figures').textContent());
      assert.ok(Number(cached[1]) > 0 && Number(cached[1]) < Number(cached[2]), `${cached[0]} from the cache`);

      await page.reload();
      assert.equal(await page.locator('.turn').count(), 0, 'a visit begins with an empty page');
      await page.getByRole('button', {name: 'Earlier conversations'}).click();
      await page.getByRole('dialog').getByRole('button', {name: /^Tell me a story about a frog/}).click();
      assert.equal(await page.locator('.turn').count(), 4);
      assert.equal(await answers(page).first().locator('.text').textContent(), first);
    });
  });

  test('settings are kept, sent, and reset', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {'System prompt': 'Be brief.', Temperature: '0', 'Top p': '0.9', 'Top k': '40', 'Min p': '0.05',
        'Most tokens': '7', Seed: '11', Thinking: 'off'});
      await page.reload();
      const asked = page.waitForRequest('**/v1/chat/completions');
      await say(page, 'Hello');
      const body = (await asked).postDataJSON();
      const {model} = body;
      assert.deepEqual(body, {
        model, messages: [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'Hello'}],
        temperature: 0, top_p: 0.9, top_k: 40, min_p: 0.05, seed: 11, max_completion_tokens: 7,
        chat_template_kwargs: {enable_thinking: false}, stream: true, stream_options: {include_usage: true, continuous_usage_stats: true},
      });
      await finished(page);
      assert.match(await answers(page).locator('.figures').textContent(), /cut off.*7 tokens/);

      await page.getByRole('button', {name: 'Settings'}).click();
      await page.getByRole('button', {name: 'Reset'}).click();
      await page.getByRole('button', {name: 'Done'}).click();
      const again = page.waitForRequest('**/v1/chat/completions');
      await set(page, {'Most tokens': '3'});
      await say(page, 'Hello again');
      assert.equal((await again).postDataJSON().temperature, undefined);
      await finished(page);
    });
  });

  test('a message is changed and sent again', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {'Most tokens': '8', Temperature: '0'});
      for (const text of ['One', 'Two']) {
        await say(page, text);
        await finished(page);
      }
      await page.getByRole('button', {name: 'Change the message and send it again'}).first().click();
      await page.getByRole('textbox', {name: 'Your message'}).fill('Three');
      await page.getByRole('textbox', {name: 'Your message'}).press('Enter');
      await finished(page);
      assert.deepEqual(await page.locator('.said').allTextContents(), ['Three']);
      assert.equal(await answers(page).count(), 1);
    });
  });

  test('by keyboard alone', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {'Most tokens': '8', Temperature: '0'});
      await page.reload();
      const focused = () => page.evaluate(() => document.activeElement.textContent);
      for (let i = 0; i < 30 && await focused() !== 'Skip to the message field'; ++i) await page.keyboard.press('Shift+Tab');
      assert.equal(await focused(), 'Skip to the message field');
      await page.keyboard.press('Enter');
      await page.keyboard.type('Line one');
      await page.keyboard.press('Shift+Enter');
      await page.keyboard.type('line two');
      await page.keyboard.press('Enter');
      await finished(page);
      assert.equal(await page.locator('.said').textContent(), 'Line one\nline two');
      // Everything that can be focused shows that it is.
      for (let i = 0; i < 12; ++i) {
        await page.keyboard.press('Tab');
        assert.ok(await page.evaluate(() => {
          const node = document.activeElement;
          if (node === document.body) return true;
          const shown = node.id === 'input' ? node.closest('.field') : node;
          const style = getComputedStyle(shown);
          return style.outlineStyle !== 'none' || style.boxShadow !== 'none';
        }), await page.evaluate(() => document.activeElement.outerHTML));
      }
    });
  });

  test('light, dark and on a phone: nothing sticks out, everything can be read and reached', async () => {
    for (const [name, options] of [
      ['chat-light', {colorScheme: 'light'}], ['chat-dark', {colorScheme: 'dark'}],
      ['chat-phone', {...phone, deviceScaleFactor: 2}],
    ]) {
      await visit(browser, it.server, '/', options, async (page) => {
        assert.deepEqual([...await faultsOfSight(page), ...await faultsOfAccess(page)], []);
        await set(page, {Temperature: '0.7', Seed: '5', 'Most tokens': '220'});
        await say(page, 'Tell me a story about a frog.');
        await finished(page);
        await picture(page, name);
        assert.deepEqual(await faultsOfSight(page), []);
        assert.deepEqual(await faultsOfAccess(page), []);
        for (const name of ['Settings', 'Earlier conversations']) {
          await page.getByRole('button', {name}).click();
          assert.deepEqual([...await faultsOfSight(page), ...await faultsOfAccess(page)], []);
          await page.keyboard.press('Escape');
        }
      });
    }
  });

  test('the button for colours wins over the system and is remembered', async () => {
    await visit(browser, it.server, '/', {colorScheme: 'light'}, async (page) => {
      const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const light = await ground();
      await page.getByRole('button', {name: 'Switch to dark colours'}).click();
      const dark = await ground();
      assert.notEqual(dark, light);
      await page.goto(`${it.server.url}/stats`);
      assert.equal(await ground(), dark);
      await page.getByRole('button', {name: 'Switch to light colours'}).click();
      assert.equal(await ground(), light);
      await page.emulateMedia({colorScheme: 'dark'});
      assert.equal(await ground(), dark, 'it follows the system again');
    });
  });

  test('what goes wrong is said where the answer would be, and can be tried again', async () => {
    await visit(browser, it.server, '/', {expected: refused}, async (page) => {
      await set(page, {'Most tokens': '8', Temperature: '0'});
      const error = (status, message, headers = {}) => (route) => route.fulfill({
        status, headers, contentType: 'application/json', body: JSON.stringify({error: {message, type: 'x', param: null, code: null}}),
      });
      const events = (...lines) => (route) => route.fulfill({contentType: 'text/event-stream', body: lines.map((line) => `data: ${line}\n\n`).join('')});
      const piece = JSON.stringify({choices: [{index: 0, delta: {content: 'Once'}, finish_reason: null}]});
      for (const [answer, words] of [
        [error(429, 'the queue is full', {'Retry-After': '3'}), /too much to do.*the queue is full.*in about 3 seconds/],
        [error(503, 'the model is being loaded'), /not ready.*the model is being loaded/],
        [error(400, 'the prompt is too long'), /refused.*the prompt is too long/],
        [error(500, 'a fault'), /failed.*a fault/],
        [(route) => route.abort('connectionrefused'), /No connection/],
        [events(piece), /ended before it was complete/],
        [events(piece, '{"error":{"message":"the device is lost"}}'), /the device is lost/],
        [events('{nonsense'), /something that is no answer/],
      ]) {
        await page.route('**/v1/chat/completions', answer);
        await say(page, 'Hello');
        const alert = answers(page).last().getByRole('alert');
        await alert.waitFor();
        assert.match(await alert.textContent(), words);
        assert.ok(await input(page).isEnabled());
        await page.unroute('**/v1/chat/completions');
        await alert.getByRole('button', {name: 'Try again'}).click();
        await finished(page);
        assert.equal(await page.getByRole('alert').count(), 0);
        assert.ok((await answers(page).last().locator('.text').textContent()).length > 0);
      }
    });
  });

  test('what does not fit the context ends nothing', async () => {
    await visit(browser, it.server, '/', {expected: refused}, async (page) => {
      const asked = [];
      page.on('request', (request) => {
        if (request.url().endsWith('/chat/completions')) asked.push(request.postDataJSON().messages.map(({content}) => content));
      });
      await set(page, {'Most tokens': '8', Temperature: '0'});
      const long = 'long '.repeat(3000);
      await say(page, long);
      const alert = page.getByRole('alert');
      await alert.getByText('more than fits the context').waitFor();
      await say(page, 'Hello');
      await finished(page);
      assert.deepEqual(asked, [[long], ['Hello']]);
      assert.equal(await alert.count(), 0);
      assert.match(await answers(page).first().textContent(), /more than fits the context/);
      assert.match(await answers(page).last().textContent(), /cut off: no more tokens are allowed/);
      // Also when it was kept meanwhile.
      await page.reload();
      await page.getByRole('button', {name: 'Earlier conversations'}).click();
      await page.getByRole('dialog').locator('button.open').first().click();
      assert.match(await answers(page).first().textContent(), /more than fits the context/);
      await say(page, long);
      await alert.getByRole('button', {name: 'New conversation'}).click();
      assert.equal(await answers(page).count(), 0);
      await set(page, {'Most tokens': ''});
      await page.route('**/v1/chat/completions', (route) => route.fulfill({
        contentType: 'text/event-stream',
        body: `data: ${JSON.stringify({choices: [{index: 0, delta: {content: 'and'}, finish_reason: 'length'}],
          usage: {prompt_tokens: 1023, completion_tokens: 1}})}\n\ndata: [DONE]\n\n`,
      }));
      await say(page, 'Hello');
      await finished(page);
      assert.match(await answers(page).last().textContent(), /cut off: the context is full/);
    });
  });

  test('a server that has gone, and came back', async () => {
    await visit(browser, it.server, '/', {expected: refused}, async (page) => {
      await page.route('**/v1/models', (route) => route.abort('connectionrefused'));
      await page.reload();
      await page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
      await page.unroute('**/v1/models');
      await page.getByRole('button', {name: 'Try again'}).click();
      await page.getByRole('alert').waitFor({state: 'detached'});
      assert.notEqual(await page.getByLabel('Model', {exact: true}).inputValue(), '');

      // A model that is being loaded is waited for.
      await page.route('**/v1/models', (route) => route.fulfill({
        status: 503, headers: {'Retry-After': '1'}, contentType: 'application/json',
        body: JSON.stringify({error: {message: 'the model is being loaded', type: 'x', param: null, code: null}}),
      }));
      await page.reload();
      await page.getByRole('alert').getByText('the model is being loaded').waitFor();
      await page.unroute('**/v1/models');
      await page.getByRole('alert').waitFor({state: 'detached'});
    });
  });

  test('statistics show what the server does', async () => {
    for (const [name, options] of [['stats-light', {colorScheme: 'light'}], ['stats-dark', {colorScheme: 'dark'}], ['', phone]]) {
      await visit(browser, it.server, '/stats', options, async (page) => {
        const counted = page.getByRole('region', {name: 'Tokens', exact: true});
        const work = load(it.server, 12);
        if (process.env.INFERNO_IMAGES && name) {
          for (let round = 0; round < 30; ++round) await load(it.server, 4 + Math.round(20 * Math.abs(Math.sin(round / 3))));
        }
        await page.waitForFunction(() => /^[1-9]/.test(document.querySelector('[aria-labelledby="card-1"] .value').textContent));
        await work;
        if (process.env.INFERNO_IMAGES && name) {
          const busy = load(it.server, 24);
          await page.waitForTimeout(1500);
          await picture(page, name);
          await busy;
        }
        await page.waitForFunction(() => document.querySelectorAll('.value')[0].textContent.startsWith('0'));
        for (const value of await page.locator('.card .value').allTextContents()) {
          assert.doesNotMatch(value, /^–/, `each figure is known, but: ${await page.locator('.cards').textContent()}`);
        }
        assert.match(await counted.getByRole('img').getAttribute('aria-label'), /generated: from .* to .*, now /);
        assert.deepEqual(await faultsOfSight(page), []);

        await page.getByText('All figures').click();
        await page.getByRole('cell', {name: 'inferno_requests_running', exact: true}).waitFor();
        await page.getByRole('button', {name: /Pause|Hold/}).click();
        assert.deepEqual(await faultsOfAccess(page), []);
        const held = page.waitForRequest('**/metrics', {timeout: 2500}).then(() => 'asked', () => 'held');
        assert.equal(await held, 'held');
      });
    }
  });
});

withServer('a model that thinks', () => scripted('think'), [], (it) => {
  test('thoughts are folded once the answer comes, and can be unfolded', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {Temperature: '0'});
      await say(page, 'Hello');
      await finished(page);
      const thoughts = answers(page).locator('details');
      assert.equal(await thoughts.getAttribute('open'), null);
      assert.match(await thoughts.locator('summary').textContent(), /^Thought for /);
      assert.equal(await answers(page).locator(':scope > .text').textContent(), 'ok');
      await thoughts.locator('summary').click();
      assert.ok(await thoughts.getByText('hi', {exact: true}).isVisible());
      await set(page, {Thinking: 'off'});
      await page.getByRole('button', {name: 'Write another answer'}).click();
      await finished(page);
      assert.equal(await answers(page).locator('details').count(), 0);
      assert.equal(await answers(page).locator(':scope > .text').textContent(), 'ok');
    });
  });
});

withServer('a model without an end', () => scripted('brooding'), [], (it) => {
  test('thoughts are open while they come; Esc stops them', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {Temperature: '0'});
      await say(page, 'Go');
      await answers(page).getByText('hihi').first().waitFor();
      assert.notEqual(await answers(page).locator('details').getAttribute('open'), null);
      assert.equal(await answers(page).locator('summary').textContent(), 'Thinking…');
      assert.equal(await answers(page).getAttribute('aria-busy'), 'true');
      assert.match(await answers(page).locator('.progress').textContent(), /^\d+ tokens?/);
      await page.keyboard.press('Escape');
      await finished(page);
      assert.match(await answers(page).locator('.figures').textContent(),
        /^stopped · \d+ tokens? · [\d.,]+ tokens\/s · first after/);
      await it.server.idle();
    });
  });

  test('the button stops an answer; another question can be asked meanwhile by no one', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {Temperature: '0', Thinking: 'off'});
      await say(page, 'Go');
      await answers(page).getByText('the a the a').first().waitFor();
      await say(page, 'Impatient');
      assert.equal(await page.locator('.turn.user').count(), 1);
      assert.equal(await input(page).inputValue(), 'Impatient');
      await stop(page).click();
      await finished(page);
      await it.server.idle();
      assert.match(await page.getByRole('status').textContent(), /Stopped/);

      await page.getByRole('button', {name: 'Write another answer'}).click();
      await answers(page).getByText('the a the a').first().waitFor();
      await page.getByRole('button', {name: 'New'}).click();
      await it.server.idle();
      assert.equal(await page.locator('.turn').count(), 0);
    });
  });

  test('whoever scrolls up is left alone', async () => {
    await visit(browser, it.server, '/', {}, async (page) => {
      await set(page, {Temperature: '0', Thinking: 'off'});
      await say(page, 'Go');
      const atEnd = () => page.evaluate(() => {
        const main = document.getElementById('main');
        return main.scrollHeight > main.clientHeight + 200 && main.scrollHeight - main.scrollTop - main.clientHeight < 60;
      });
      while (!await atEnd()) await page.waitForTimeout(50);
      await page.mouse.move(500, 300);
      await page.mouse.wheel(0, -200);
      const latest = page.getByRole('button', {name: 'Latest'});
      await latest.waitFor();
      await latest.click();
      while (!await atEnd()) await page.waitForTimeout(50);
      await stop(page).click();
      await finished(page);
    });
  });
});

describe('a server with a key', () => {
  test('asks for it, and remembers it no longer than it is told to', async () => {
    const file = temporary('page-keys');
    writeFileSync(file, 'correct-horse\n');
    const server = await serve(tale, '--api-key-file', file);
    try {
      await visit(browser, server, '/', {expected: refused}, async (page) => {
        const asked = page.getByRole('alert');
        await asked.getByText('The server asks for a key').waitFor();
        await asked.getByLabel('API key').fill('wrong');
        const answered = page.waitForResponse('**/v1/models');
        await asked.getByRole('button', {name: 'Use it'}).click();
        assert.equal((await answered).status(), 401);
        await asked.getByText('The server does not take this key').waitFor();
        await asked.getByLabel('API key').fill('schlüssel€');
        await asked.getByRole('button', {name: 'Use it'}).click();
        await asked.getByText('letters, digits and signs of ASCII only').waitFor();
        await asked.getByLabel('API key').fill('correct-horse');
        await asked.getByRole('button', {name: 'Use it'}).click();
        await asked.waitFor({state: 'detached'});
        await set(page, {'Most tokens': '8'});
        await say(page, 'Hello');
        await finished(page);
        const stored = () => page.evaluate(() => JSON.stringify({...localStorage, ...sessionStorage}));
        assert.ok(!(await stored()).includes('horse'));
        await page.reload();
        await asked.getByLabel('API key').fill('correct-horse');
        await asked.getByLabel('Keep it').check();
        await asked.getByRole('button', {name: 'Use it'}).click();
        await asked.waitFor({state: 'detached'});
        await page.reload();
        await page.waitForFunction(() => document.getElementById('model').value !== '');
        assert.equal(await asked.count(), 0);
        assert.ok(await page.evaluate(() => !JSON.stringify({...localStorage}).includes('horse')));
        // A link would ask without the key.
        await page.goto(`${server.url}/stats`);
        await page.getByText('since the start').first().waitFor();
        assert.equal(await page.locator('#source').getAttribute('href'), null);
      });
    } finally {
      await server.stop();
    }
  });
});

withServer('the parts of the page', () => tale, [], (it) => {
  const inPage = (body) => visit(browser, it.server, '/', {}, body);
  const rendered = (page, texts) => page.evaluate(async (all) => {
    const {renderMarkdown} = await import('/assets/markdown.js');
    return all.map((text) => {
      const node = document.createElement('div');
      renderMarkdown(node, text);
      for (const code of node.querySelectorAll('.code')) code.replaceWith(code.querySelector('pre'));
      for (const table of node.querySelectorAll('.table')) table.replaceWith(table.firstChild);
      return node.innerHTML.replace(/ (target|rel|tabindex|class|scope)="[^"]*"/g, '');
    });
  }, texts);

  test('Markdown becomes elements', async () => {
    await inPage(async (page) => {
      const cases = {
        'a *b* **c** ***d*** _e_ __f__ ~~g~~': '<p>a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <em>e</em> <strong>f</strong> <s>g</s></p>',
        '**a *b* c** *a **b** c* **a *b***': '<p><strong>a <em>b</em> c</strong> <em>a <strong>b</strong> c</em> <strong>a <em>b</em></strong></p>',
        '2 * 3 * 4 and snake_case_name **open': '<p>2 * 3 * 4 and snake_case_name **open</p>',
        '\\*plain\\* `*code*` ``a`b``': '<p>*plain* <code>*code*</code> <code>a`b</code></p>',
        '**bold `**` on**': '<p><strong>bold <code>**</code> on</strong></p>',
        'one\ntwo\n\nthree': '<p>one<br>two</p><p>three</p>',
        '# One\n### Two #\ntext': '<h3>One</h3><h5>Two</h5><p>text</p>',
        '- a\n- b\n  - c\n  - d\n- e': '<ul><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ul>',
        '3. a\n4. b\n\n   more': '<ol start="3"><li>a</li><li><p>b</p><p>more</p></li></ol>',
        '1. a\n   ```\n   x\n     y\n   ```\n2. b': '<ol><li>a<pre><code>x\n  y</code></pre></li><li>b</li></ol>',
        '> a\n> - b\n\nc': '<blockquote><p>a</p><ul><li>b</li></ul></blockquote><p>c</p>',
        '```js\nlet a = "<b>";\n\n```\nafter': '<pre><code>let a = "&lt;b&gt;";\n</code></pre><p>after</p>',
        '```\nopen': '<pre><code>open</code></pre>',
        '---\n***': '<hr><hr>',
        '| a | b |\n|---|--:|\n| 1 | x \\| y |\n| 2 |': '<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>x | y</td></tr></tbody></table><p>| 2 |</p>'
          .replace('</tbody></table><p>| 2 |</p>', '<tr><td>2</td><td></td></tr></tbody></table>'),
        '[a **b**](https://x.example/y_(z) "t")': '<p><a href="https://x.example/y_(z)">a <strong>b</strong></a></p>',
        'see https://x.example/a?b=c_d_e. And': '<p>see <a href="https://x.example/a?b=c_d_e">https://x.example/a?b=c_d_e</a>. And</p>',
        '- [ ] a\n- [x] b': '<ul><li>☐ a</li><li>☑ b</li></ul>',
      };
      const found = await rendered(page, Object.keys(cases));
      Object.entries(cases).forEach(([text, html], i) => assert.equal(found[i], html, text));
    });
  });

  test('what an answer says is never run, fetched or followed', async () => {
    await inPage(async (page) => {
      const texts = ['<img src=x onerror="window.ran = 1">', '<script>window.ran = 1</script>', '[a](javascript:window.ran=1)',
        '[a](JaVaScRiPt:x)', '[a](data:text/html,x)', '[a](//evil.example)', '![a](javascript:x)', '<https://x.example/<b>>',
        '`<b>`', '```<b>\n<b>\n```', '| <b> | <i> |\n|---|---|\n| <b> | x |', '# <b>', '&lt;b&gt; &amp; &#60;'];
      for (const html of await rendered(page, texts)) {
        assert.doesNotMatch(html, /<(?!\/?(p|a|br|code|pre|table|thead|tbody|tr|th|td|h3)\b)|<a href="(?!https?:)/i);
      }
      assert.match((await rendered(page, ['![a picture](https://x.example/y.png)']))[0], /^<p><a href="https:\/\/x.example\/y.png">a picture<\/a><\/p>$/);
      assert.equal(await page.evaluate(() => window.ran), undefined);
    });
  });

  test('long and hostile texts end, and what comes in pieces looks as if it had come at once', async () => {
    await inPage(async (page) => {
      const long = ['*', '**a ', '_a', '[', '[a](', '`', '``a`', '> ', '- ', '  - a\n', '1. a\n', '| a ', '|-', '\\', '~~~\n', '# ', '***a* ', 'a\n']
        .flatMap((piece) => [1, 7, 20_000].map((count) => piece.repeat(count)));
      for (const html of await rendered(page, long)) assert.equal(typeof html, 'string');
      const texts = ['# A\n\nb *c* `d`\n\n- e\n  - f\n\n```x\ng\n```\n| h | i |\n|---|---|\n| **j** | k |\n\n> l\n> m\n\n1. n\n\n   o\n2. p'];
      assert.deepEqual(await page.evaluate(async ([text]) => {
        const {renderMarkdown} = await import('/assets/markdown.js');
        const grown = document.createElement('div');
        const differ = [];
        for (let length = 1; length <= text.length; ++length) {
          renderMarkdown(grown, text.slice(0, length));
          const fresh = document.createElement('div');
          renderMarkdown(fresh, text.slice(0, length));
          if (grown.innerHTML !== fresh.innerHTML) differ.push(text.slice(0, length));
        }
        return differ;
      }, texts), []);
    });
  });

  test('events are read whatever pieces they come in', async () => {
    await inPage(async (page) => {
      const stream = ': a comment\n\ndata: one\n\ndata:two\r\n\r\nevent: x\rdata:  three\r\rdata: a\ndata: b\n\nid: 7\n\ndata\n\ndata: last\n\n';
      const all = await page.evaluate(async (text) => {
        const {EventParser} = await import('/assets/api.js');
        return [1, 2, 3, 5, 8, 13, 1000].map((size) => {
          const parser = new EventParser();
          const events = [];
          for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
          return events;
        });
      }, stream);
      for (const events of all) assert.deepEqual(events, ['one', 'two', ' three', 'a\nb', 'last']);
    });
  });

  test('figures are read as Prometheus writes them', async () => {
    await inPage(async (page) => {
      const found = await page.evaluate(async () => {
        const {growth, quantile, rate, Reading} = await import('/assets/prometheus.js');
        const text = (n) => [
          '# HELP a_total What \\\\ it is\\nsaid', '# TYPE a_total counter', `a_total{x="1",y="q\\"\\\\\\n}"} ${n}`, `a_total{x="2"} ${2 * n} 1700000000`,
          'b +Inf', 'c NaN', `t_bucket{le="0.1"} ${n}`, `t_bucket{le="0.2"} ${3 * n}`, `t_bucket{le="+Inf"} ${4 * n}`, 'nonsense {', '',
        ].join('\n');
        const [before, after] = [new Reading(text(10), 1000), new Reading(text(30), 3000)];
        return {
          sum: after.value('a_total'), one: after.value('a_total', {x: '1'}), label: after.labels('a_total').y, help: after.help.get('a_total'),
          none: after.value('z'), infinite: after.value('b') === Infinity, growth: growth(before, after, 'a_total'), reset: growth(after, before, 'a_total'),
          rate: rate(before, after, 'a_total', {x: '2'}), half: quantile(before, after, 't', 0.5), most: quantile(before, after, 't', 0.99),
          nothing: quantile(after, after, 't', 0.5),
        };
      });
      assert.deepEqual(found, {
        sum: 90, one: 30, label: 'q"\\\n}', help: 'What \\ it is\nsaid', none: null, infinite: true, growth: 60, reset: null,
        rate: 20, half: 0.15000000000000002, most: 0.2, nothing: null,
      });
    });
  });
});
