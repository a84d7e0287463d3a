// /metrics in the eyes of Prometheus' own checker.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {test} from 'node:test';

import {serve, tale} from './server.mjs';

test('promtool finds nothing to complain about', async () => {
  const server = await serve(tale);
  try {
    // Before the first request, and with counts in every histogram.
    for (const requests of [0, 1]) {
      for (let i = 0; i < requests; ++i) {
        const body = JSON.stringify({prompt: 'Once upon a time', max_tokens: 8, temperature: 0});
        const answer = await fetch(`${server.url}/v1/completions`, {method: 'POST', body, headers: {'Content-Type': 'application/json'}});
        assert.equal(answer.status, 200);
        await answer.text();
      }
      const response = await fetch(`${server.url}/metrics`);
      assert.match(response.headers.get('Content-Type'), /^text\/plain; version=0\.0\.4/);
      const checked = spawnSync('promtool', ['check', 'metrics'], {input: await response.text(), encoding: 'utf8'});
      assert.equal(checked.stdout + checked.stderr, '');
      assert.equal(checked.status, 0);
    }
  } finally {
    await server.stop();
  }
});
