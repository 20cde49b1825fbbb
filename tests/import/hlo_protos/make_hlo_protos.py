#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes FOLDER/NAME.pb for each FOLDER/NAME.hlo: what XLA makes of that text, serialized.

    python3 make_hlo_protos.py FOLDER

Needs jaxlib (written with 0.10.2)."""

import pathlib
import sys

from jaxlib import _hlo

for text in sorted(pathlib.Path(sys.argv[1]).glob("*.hlo")):
    module = _hlo.hlo_module_from_text(text.read_text())
    text.with_suffix(".pb").write_bytes(module.as_serialized_hlo_module_proto())
