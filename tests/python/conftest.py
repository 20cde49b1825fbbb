# SPDX-License-Identifier: Apache-2.0
"""Tests plan by the built-in prices, in full, so that what they see is the same in every process."""

import os

os.environ.setdefault("PLIMSOLL_PLANNING", "full")
os.environ.setdefault("JAX_PLATFORMS", "plimsoll,cpu")
os.environ.pop("PLIMSOLL_MEMORY_LIMIT", None)
