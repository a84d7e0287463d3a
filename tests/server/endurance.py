#!/usr/bin/env python3
"""Keeps a server busy with all that clients do, and checks that nothing of it stays behind.

usage: endurance.py SERVER [--seconds N] [--seed N] [-- SERVER-OPTION...]

Starts SERVER (the inferno program) with few cache blocks and a short queue, so that pauses and refusals happen,
and sends from many connections: chats and completions, streamed and not, constrained and not; clients that leave
after a few tokens, that read slowly or not at all, that send half a request; bad JSON, wrong types, prompts that are
too long. At the end, when all have left, the server must be as it was after a first round: no request running, no
cache block in use, as many file descriptors, and no more memory than a bound. Then it is told to stop, and must
exit with 0: a sanitizer's finding is another code.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import time

# What an allocator may keep, in megabytes. Sanitizers quarantine what is freed.
MEMORY_MEGABYTES = 48
# How long a server may need to notice that somebody left.
SETTLE_SECONDS = 60


# Zero when nobody is there.
BUSY = ("inferno_requests_running", "inferno_requests_queued", "inferno_requests_paused", "inferno_requests_stalled",
        'inferno_kv_blocks{state="in_use"}')


class Failure(Exception):
    """The server did what it must not."""


async def open_connection(port, receive_buffer=None):
    if receive_buffer is None:
        return await asyncio.open_connection("127.0.0.1", port)
    import socket

    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=plain, limit=receive_buffer)


def request(path, body, method="POST"):
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


async def exchange(port, path, body, method="POST"):
    """(status, body as it came, chunked or not)"""
    reader, writer = await open_connection(port)
    try:
        writer.write(request(path, body, method))
        answer = await reader.read(-1)
        head, _, rest = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 "):
            raise Failure(f"{path}: no answer: {answer[:100]!r}")
        return int(head[9:12]), rest
    finally:
        writer.close()


async def metrics(port):
    status, text = await exchange(port, "/metrics", b"", "GET")
    if status != 200:
        raise Failure(f"/metrics: {status}")
    return {
        match[1].decode(): float(match[2])
        for match in re.finditer(rb"^(inferno_\w+(?:\{[^}]*\})?) ([0-9.e+-]+)\r?$", text, re.MULTILINE)
    }


WORDS = "Once upon a time there was a little dog who liked to play with his red ball in the big green park".split()


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def good_body(rng, stream):
    body = {"max_tokens": rng.randint(1, 80), "stream": stream, "seed": rng.randint(0, 1 << 30),
            "temperature": rng.choice([0, 0.7, 1.5])}
    if rng.random() < 0.5:
        path = "/v1/completions"
        body["prompt"] = text(rng, rng.randint(1, 120))
        body["logprobs"] = rng.choice([None, 2])
        body["n"] = rng.choice([1, 1, 3])
        body["ignore_eos"] = rng.random() < 0.3
    else:
        path = "/v1/chat/completions"
        body["messages"] = [{"role": "user", "content": text(rng, rng.randint(1, 60))}]
        if rng.random() < 0.3:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
                "type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                                 "age": {"type": "integer", "minimum": 0, "maximum": 99}},
                "required": ["name", "age"], "additionalProperties": False}}}
    return path, json.dumps(body).encode()


async def whole(port, rng):
    path, body = good_body(rng, stream=rng.random() < 0.5)
    status, answer = await exchange(port, path, body)
    if status not in (200, 429):
        raise Failure(f"{path} {body!r}: {status} {answer[:300]!r}")


async def leave(port, rng):
    """Goes away in the middle."""
    path, body = good_body(rng, stream=rng.random() < 0.7)
    reader, writer = await open_connection(port)
    writer.write(request(path, body))
    try:
        for _ in range(rng.randint(0, 4)):
            await asyncio.wait_for(reader.read(200), 0.2)
    except asyncio.TimeoutError:
        pass
    writer.transport.abort()


async def read_slowly(port, rng):
    reader, writer = await open_connection(port, receive_buffer=4096)
    body = json.dumps({"prompt": text(rng, 4), "max_tokens": 200, "ignore_eos": True, "stream": True}).encode()
    writer.write(request("/v1/completions", body))
    end = time.monotonic() + rng.uniform(0.5, 4)
    while time.monotonic() < end and await reader.read(64):
        await asyncio.sleep(0.1)
    writer.transport.abort()


async def half_a_request(port, rng):
    _, writer = await open_connection(port)
    whole_request = request(*good_body(rng, stream=True))
    writer.write(whole_request[: rng.randint(1, len(whole_request) - 1)])
    await writer.drain()
    await asyncio.sleep(rng.uniform(0, 0.3))
    writer.transport.abort()


BAD = [
    (b"{", 400), (b"", 400), (b"null", 400), (b"[]", 400), (b"[" * 100_000, 400), (b'{"messages":[]}', 400),
    (b'{"messages":[{"role":"user","content":"\xff"}]}', 400),
    (b'{"messages":[{"role":"user","content":"\\ud83d"}]}', 400),
    (b'{"messages":[{"role":"nobody","content":"x"}]}', 400),
    (b'{"messages":[{"role":"user","content":"x"}],"temperature":"hot"}', 400),
    (b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1.5}', 400),
    (b'{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":'
     b'{"name":"x","schema":{"$ref":"#"}}}}', 400),
    (json.dumps({"messages": [{"role": "user", "content": "dog " * 20_000}]}).encode(), 400),
]


async def bad(port, rng):
    body, expected = rng.choice(BAD)
    status, answer = await exchange(port, "/v1/chat/completions", body)
    if status != expected:
        raise Failure(f"{body[:80]!r}: {status} {answer[:200]!r}, expected {expected}")
    if b'"error"' not in answer:
        raise Failure(f"{body[:80]!r}: no error in {answer[:200]!r}")


async def embed(port, rng):
    status, answer = await exchange(port, "/v1/embeddings", json.dumps({"input": text(rng, 20)}).encode())
    if status not in (200, 429):
        raise Failure(f"/v1/embeddings: {status} {answer[:200]!r}")


KINDS = [(whole, 8), (leave, 5), (read_slowly, 2), (half_a_request, 1), (bad, 3), (embed, 1)]


async def client(port, rng, end, counts):
    while time.monotonic() < end:
        kind = rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])[0]
        try:
            await kind(port, rng)
        except (ConnectionError, OSError) as error:
            # Who sends more than the server wants to read may be cut off.
            if kind is not bad:
                raise Failure(f"{kind.__name__}: {error}") from error
        counts[kind.__name__] = counts.get(kind.__name__, 0) + 1


async def settled(port):
    """Waits until nothing runs; the metrics then."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        now = await metrics(port)
        busy = {name: now[name] for name in BUSY}
        if not any(busy.values()):
            return now
        if time.monotonic() > end:
            raise Failure(f"{SETTLE_SECONDS} s after everybody left: {busy}")
        await asyncio.sleep(0.2)


def resident_megabytes(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


async def open_files(process, expected, patience):
    """How many file descriptors the server has, once they are as few as expected or `patience` seconds are over: it
    closes a connection a moment after its client does."""
    end = time.monotonic() + patience
    while (files := len(os.listdir(f"/proc/{process.pid}/fd"))) > expected and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return files


async def start(server, options):
    process = await asyncio.create_subprocess_exec(
        server, "serve", "--port", "0", "--kv-blocks", "48", "--max-queue", "8", *options,
        stderr=asyncio.subprocess.PIPE)
    log = []
    port = None
    while port is None:
        line = (await process.stderr.readline()).decode(errors="replace")
        log.append(line)
        if not line:
            raise Failure(f"the server did not start: {''.join(log)}")
        if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
            port = int(found[1])

    async def collect():
        while line := await process.stderr.readline():
            log.append(line.decode(errors="replace"))
            del log[:-200]

    return process, port, log, asyncio.create_task(collect())


async def run(arguments):
    process, port, log, collecting = await start(arguments.server, arguments.options)
    try:
        rng = random.Random(arguments.seed)
        counts = {}

        async def round_of(seconds):
            end = time.monotonic() + seconds
            await asyncio.gather(*(client(port, random.Random(rng.random()), end, counts) for _ in range(24)))
            return await settled(port)

        await round_of(min(5, arguments.seconds / 4))
        files, megabytes = await open_files(process, 0, patience=1), resident_megabytes(process)
        counters = await round_of(arguments.seconds)
        files_after, megabytes_after = await open_files(process, files, patience=20), resident_megabytes(process)
        print(f"requests: {counts}")
        print({name: int(value) for name, value in counters.items() if name.endswith("_total")})
        print(f"file descriptors: {files} -> {files_after}; memory: {megabytes:.0f} -> {megabytes_after:.0f} MB")
        if files_after > files:
            raise Failure(f"{files_after - files} file descriptors were left open")
        if megabytes_after > megabytes + MEMORY_MEGABYTES + arguments.quarantine:
            raise Failure(f"memory grew by {megabytes_after - megabytes:.0f} MB")
        process.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(process.wait(), 60)
        await collecting
        if code != 0:
            raise Failure(f"the server ended with {code}:\n{''.join(log)}")
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        print("".join(log[-60:]), file=sys.stderr)
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quarantine", type=float, default=0, metavar="MB", help="memory that a sanitizer keeps")
    own, options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, options = own[:at], own[at + 1:]
    arguments = parser.parse_args(own)
    arguments.options = options
    try:
        asyncio.run(run(arguments))
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
    print("passed")


if __name__ == "__main__":
    main()
