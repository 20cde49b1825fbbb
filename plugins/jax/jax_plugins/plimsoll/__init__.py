# SPDX-License-Identifier: Apache-2.0
"""Makes Plimsoll a platform of JAX. JAX finds this package by its place, `jax_plugins.plimsoll`, and
calls `initialize`; nothing else is to be done but to have its parent folder on the Python path."""

import os
import pathlib

import jax._src.xla_bridge as xla_bridge
from jax._src.interpreters import mlir

PLATFORM = "plimsoll"


def library_path() -> str:
    """The plugin: $PLIMSOLL_PJRT_LIBRARY, else beside this file, else of a build in this tree."""
    given = os.environ.get("PLIMSOLL_PJRT_LIBRARY")
    if given:
        return given
    name = "libplimsoll_pjrt.so"
    here = pathlib.Path(__file__).resolve().parent
    places = [here / name]
    if len(here.parents) > 3:
        places.append(here.parents[3] / "build/release/plugins/pjrt" / name)
    for place in places:
        if place.exists():
            return str(place)
    raise FileNotFoundError(
        f"{name} is in none of {[str(place) for place in places]} (build the target "
        "plimsoll_pjrt, or set PLIMSOLL_PJRT_LIBRARY)"
    )


def initialize() -> None:
    """Called by JAX. Registers the platform, and that it takes donated arguments."""
    xla_bridge.register_plugin(PLATFORM, priority=500, library_path=library_path())
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
