# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of narrow_test.cc: hashes of what ml_dtypes makes of every code and of many numbers.

Usage: make_narrow_hashes.py, with ml_dtypes installed.
"""
import warnings

import ml_dtypes
import numpy as np

FORMATS = {
    "f4e2m1fn": "float4_e2m1fn", "f8e3m4": "float8_e3m4", "f8e4m3": "float8_e4m3", "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
}


def fnv(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & (2**64 - 1)
    return state


def main():
    warnings.filterwarnings("ignore")  # of casts that overflow
    for name, known_as in FORMATS.items():
        dtype = getattr(ml_dtypes, known_as)
        numbers = np.arange(16 if name.startswith("f4") else 256, dtype="u1").view(dtype).astype("f4")
        bits = numbers.view("u4").copy()
        bits[np.isnan(numbers)] = 0x7FC00000
        # f32 all over; then each number, what lies half way to the next, and their neighbours.
        spread = np.arange(0, 2**32, 65521, dtype="u8").astype("u4").view("f4")
        finite = np.unique(numbers[np.isfinite(numbers)].astype("f8") + 0.0)
        points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2]).astype("f4").view("u4")
        near = np.concatenate([points - np.uint32(1), points, points + np.uint32(1)]).view("f4")
        swept = np.concatenate([spread, near])
        swept = swept[~np.isnan(swept)]
        codes = swept.astype(dtype).view("u1")
        print(f"{{DType::{name}, 0x{fnv(bits.tobytes()):016x}, 0x{fnv(codes.tobytes()):016x}}},")


main()
