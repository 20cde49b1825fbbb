#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A link between two network namespaces that delays frames and loses some, for kernels without netem. As root.

`lossy_link.py NAMESPACE DEVICE NAMESPACE DEVICE DELAY_MS JITTER_MS LOSS_PERCENT` makes the two devices (taps), prints
`ready`, and carries frames between them until it is ended. Every frame waits for DELAY_MS, more or less by JITTER_MS, so
that some overtake others.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

CLONE_NEWNET, TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0002, 0x1000


def open_tap(namespace, device):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def main():
    first, first_device, second, second_device, *numbers = sys.argv[1:]
    delay, jitter, loss = (float(number) for number in numbers)
    taps = [open_tap(first, first_device), open_tap(second, second_device)]
    chance = random.Random(1)
    count = itertools.count()
    waiting = []  # when, number, to, frame
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                os.write(to, frame)
            except OSError:
                pass  # its device is down: the frame is lost
        patience = max(0.0, waiting[0][0] - now) if waiting else None
        for tap in select.select(taps, [], [], patience)[0]:
            other = taps[1 - taps.index(tap)]
            for _ in range(64):
                try:
                    frame = os.read(tap, 65536)
                except OSError:
                    break
                if chance.random() * 100 < loss:
                    continue
                later = (delay + chance.uniform(-jitter, jitter)) / 1000
                heapq.heappush(waiting, (time.monotonic() + later, next(count), other, frame))


if __name__ == "__main__":
    main()
