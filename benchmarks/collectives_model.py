#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all-reduces would take among more ranks than there are here: arithmetic, nothing is run.

The usual model (Thakur, Rabenseifner, Gropp, 2005): a message of b bytes takes alpha + b * beta seconds; a rank sends
and receives one message's bytes at a time each way, and handling a message costs it `overhead` seconds of processor.
Sums themselves cost gamma seconds a byte. All algorithms move at least 2 (n - 1) / n of the array through each rank.

  ring      n - 1 rounds of one message of 1/n to the next rank, twice
  halving   Rabenseifner's: log2 n rounds of messages of 1/2, 1/4, ... and back (n a power of two)
  tree      up and down a binomial tree, the whole array at each of log2 n levels
  direct    what collectives/process_communicator.cc does: the share of each other rank to that rank, all at once, and
            back; sums in the group's order, in messages of up to 512 KiB
"""
import argparse
import math

CHUNK = 512 << 10


def ring(n, size, p):
    return 2 * (n - 1) * (p.alpha + p.overhead + size / n * p.beta) + (n - 1) / n * size * p.gamma


def halving(n, size, p):
    return 2 * math.ceil(math.log2(n)) * (p.alpha + p.overhead) + 2 * (n - 1) / n * size * p.beta + (n - 1) / n * size * p.gamma


def tree(n, size, p):
    return 2 * math.ceil(math.log2(n)) * (p.alpha + p.overhead + size * p.beta) + math.ceil(math.log2(n)) * size * p.gamma


def direct(n, size, p):
    messages = (n - 1) * math.ceil(max(1, size / n / CHUNK))
    # Messages to different ranks are on their way together: latency counts once each way.
    return 2 * (p.alpha + messages * p.overhead + (n - 1) / n * size * p.beta) + (n - 1) / n * size * p.gamma


def text_of(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float, default=20e-6, help="seconds until a message arrives (20e-6: TCP in a data centre)")
    parser.add_argument("--bandwidth", type=float, default=12.5e9, help="bytes a second each way (12.5e9: 100 Gbit/s)")
    parser.add_argument("--overhead", type=float, default=4e-6, help="seconds of processor a message (4e-6)")
    parser.add_argument("--sum-bandwidth", type=float, default=10e9, help="bytes a second that are added up (10e9)")
    parser.add_argument("--ranks", default="2,8,64,256,1024")
    parser.add_argument("--mebibytes", default="0.0625,1,25,256")
    p = parser.parse_args()
    p.beta, p.gamma = 1 / p.bandwidth, 1 / p.sum_bandwidth
    algorithms = (ring, halving, tree, direct)
    print("| array | ranks | " + " | ".join(f.__name__ for f in algorithms) + " | direct / best other |")
    print("|---|---|" + "---|" * (len(algorithms) + 1))
    for mebibytes in map(float, p.mebibytes.split(",")):
        for n in map(int, p.ranks.split(",")):
            times = [f(n, mebibytes * 2**20, p) for f in algorithms]
            print(f"| {mebibytes:g} MiB | {n} | " + " | ".join(map(text_of, times)) + f" | {times[-1] / min(times[:-1]):.2f} |")


if __name__ == "__main__":
    main()
