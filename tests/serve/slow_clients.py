# SPDX-License-Identifier: Apache-2.0
"""Slow clients of a server, and how long others wait beside them (scripts/serve_tests.sh --slow).

  python3 slow_clients.py PORT PROCESS [--half-open N] [--silent N] [--trickling N] [--readers N] [--seconds S]

Half-open connections send a piece of a header every second and never its end, silent ones nothing;
trickling bodies send a byte every second; readers ask for 4 MiB and read 1 KiB every second.
Meanwhile one client asks for /v2/health/live on connections of its own and on one that is kept, and
for a small inference. One line of JSON: the latencies in milliseconds, the connections that are
still open, and what the server's resident memory grew by.
"""
import argparse
import http.client
import json
import resource
import select
import socket
import struct
import threading
import time


def resident_bytes(process):
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def connect(port, receive_bytes=None):
    made = socket.socket()
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.connect(("127.0.0.1", port))
    return made


def infer_request(model, name, shape, count):
    described = json.dumps({
        "parameters": {"binary_data_output": True},
        "inputs": [{"name": name, "shape": shape, "datatype": "FP32",
                    "parameters": {"binary_data_size": 4 * count}}]}).encode()
    head = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {len(described) + 4 * count}\r\n"
            f"Inference-Header-Content-Length: {len(described)}\r\n\r\n").encode()
    return head + described + struct.pack(f"<{count}f", *([0.5] * count))


class SlowClients:
    """Keeps them going on a thread until `over`."""

    def __init__(self, port, flags):
        self.over = threading.Event()
        self.silent = [connect(port) for _ in range(flags.silent)]
        self.heads = [connect(port) for _ in range(flags.half_open)]
        self.bodies = [connect(port) for _ in range(flags.trickling)]
        self.readers = [connect(port, 4096) for _ in range(flags.readers)]
        for one in self.heads:
            self.send(one, b"GET /v2/health/live HTTP/1.1\r\nX: ")
        for one in self.bodies:
            self.send(one, b"POST /v2/models/small/infer HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{")
        if self.readers:
            request = infer_request("large", "x", [1 << 20], 1 << 20)
            for one in self.readers:
                self.send(one, request)
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    @staticmethod
    def send(one, data):
        try:
            one.sendall(data)
        except OSError:
            pass  # closed by the server, which it may

    def go_on(self):
        while not self.over.wait(1):
            for one in self.heads + self.bodies:
                self.send(one, b" ")
            for one in self.readers:
                try:
                    one.recv(1024, socket.MSG_DONTWAIT)
                except OSError:
                    pass

    def end(self):
        """How many of the half-open and trickling ones the server has neither closed nor answered."""
        self.over.set()
        self.thread.join()
        watching = select.poll()
        everyone = self.silent + self.heads + self.bodies
        for one in everyone:
            watching.register(one, select.POLLIN)
        closed = len(watching.poll(0))
        for one in everyone + self.readers:
            one.close()
        return len(everyone) - closed


def quantiles(seconds):
    ordered = sorted(seconds)
    return {"median": round(ordered[len(ordered) // 2] * 1e3, 2),
            "p99": round(ordered[int(0.99 * (len(ordered) - 1))] * 1e3, 2),
            "most": round(ordered[-1] * 1e3, 2), "count": len(ordered)}


def measure(port, seconds):
    request = infer_request("small", "x", [4, 4], 16)
    head, body = request.split(b"\r\n\r\n", 1)
    headers = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times = {"live": [], "live_kept": [], "infer": []}
    statuses = {}

    def ask(what, connection, *request):
        start = time.perf_counter()
        try:
            connection.request(*request)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):  # refused, and closed before it was read
            connection.close()
            statuses["closed"] = statuses.get("closed", 0) + 1
            return
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if answer.status == 200:
            times[what].append(time.perf_counter() - start)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fresh = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        ask("live", fresh, "GET", "/v2/health/live")
        fresh.close()
        ask("live_kept", kept, "GET", "/v2/health/live")
        ask("infer", kept, "POST", "/v2/models/small/infer", body, headers)
        time.sleep(0.01)
    return {what: quantiles(taken) for what, taken in times.items()} | {"statuses": statuses}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("process", type=int)
    parser.add_argument("--half-open", type=int, default=0)
    parser.add_argument("--silent", type=int, default=0)
    parser.add_argument("--trickling", type=int, default=0)
    parser.add_argument("--readers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15)
    flags = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = resident_bytes(flags.process)
    slow = SlowClients(flags.port, flags)
    measured = measure(flags.port, flags.seconds)
    grown = resident_bytes(flags.process) - before
    print(json.dumps({"half_open": flags.half_open, "silent": flags.silent, "trickling": flags.trickling,
                      "readers": flags.readers, **measured, "still_open": slow.end(),
                      "resident_growth_bytes": grown}), flush=True)


if __name__ == "__main__":
    main()
