// A browser for the tests, and what every visit of a page must keep to.
import assert from 'node:assert/strict';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';

import {need} from './server.mjs';

const {chromium} = need('playwright-core');
const axe = need('axe-core').source;

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});

/**
 * Opens `path` of `server` and gives the page to `body`; then no error may have been logged but those that match
 * `expected`, and nothing may have been asked of another server.
 */
export async function visit(browser, server, path, {expected = null, ...options}, body) {
  const context = await browser.newContext({viewport: {width: 1100, height: 780}, locale: 'en-GB', ...options});
  const faults = [];
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('pageerror', (error) => faults.push(error.stack));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !expected?.test(message.text())) faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url)) faults.push(`asks for ${request.url()}`);
  });
  try {
    const response = await page.goto(server.url + path);
    assert.equal(response.status(), 200);
    await body(page, response);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

/** Keeps a picture for the documentation, if the pictures are to be made anew. */
export async function picture(page, name) {
  const folder = process.env.INFERNO_IMAGES;
  if (!folder) return;
  mkdirSync(folder, {recursive: true});
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({path: join(folder, `${name}.png`), animations: 'disabled', caret: 'hide'});
}

/** What axe-core has against the page as it is, in words. */
export async function faultsOfAccess(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const {violations} = await window.axe.run(document, {resultTypes: ['violations']});
    return violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
  });
}

/** What is wider than the page, and texts with too little contrast to their ground, in words. */
export const faultsOfSight = (page) => page.evaluate(() => {
  const faults = [];
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const parts = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const [r, g, b] = parts(color).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] === 255) return color;
    }
    return 'white';
  };
  for (const node of document.body.querySelectorAll('*')) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    if (!hasText || !node.checkVisibility() || node.closest('.unseen, .skip, :disabled, svg, option')) continue;
    const box = node.getBoundingClientRect();
    if (box.width > 0 && (box.left < -1 || box.right > innerWidth + 1) && !node.closest('pre, .table')) {
      faults.push(`'${node.textContent.slice(0, 40)}' reaches out of the window`);
    }
    const [a, b] = [luminance(getComputedStyle(node).color), luminance(groundOf(node))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) faults.push(`'${node.textContent.slice(0, 40)}' has a contrast of ${contrast.toFixed(2)}`);
  }
  return faults;
});
