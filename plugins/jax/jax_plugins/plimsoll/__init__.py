# SPDX-License-Identifier: Apache-2.0
"""Makes Plimsoll a platform of JAX. JAX finds this package by its place, `jax_plugins.plimsoll`, and
calls `initialize`; nothing else is to be done but to have its parent folder on the Python path."""

import os
import pathlib

import jax._src.xla_bridge as xla_bridge
from jax._src.interpreters import mlir
from jax._src.lax import linalg

PLATFORM = "plimsoll"


def library_path() -> str:
    """The plugin: $PLIMSOLL_PJRT_LIBRARY, else beside this file, else of the package `plimsoll`
    installed beside this one, else of a build in this tree."""
    given = os.environ.get("PLIMSOLL_PJRT_LIBRARY")
    if given:
        return given
    name = "libplimsoll_pjrt.so"
    here = pathlib.Path(__file__).resolve().parent
    places = [here / name, here.parents[1] / "plimsoll/lib/libplimsoll.so"]
    if len(here.parents) > 3:
        places.append(here.parents[3] / "build/release/plugins/pjrt" / name)
    for place in places:
        if place.exists():
            return str(place)
    raise FileNotFoundError(
        f"{name} is in none of {[str(place) for place in places]} (build the target "
        "plimsoll_pjrt, or set PLIMSOLL_PJRT_LIBRARY)"
    )


# What JAX lowers to functions of LAPACK on a CPU, whose names the library knows: for a platform that
# JAX does not know, it has slower ways for some of them and none for the others.
LINEAR_ALGEBRA = (
    "cholesky_p",
    "eig_p",
    "eigh_p",
    "geqp3_p",
    "geqrf_p",
    "hessenberg_p",
    "householder_product_p",
    "lu_p",
    "ormqr_p",
    "schur_p",
    "svd_p",
    "triangular_solve_p",
    "tridiagonal_p",
    "tridiagonal_solve_p",
)


def register_linear_algebra() -> None:
    """Gives the platform the CPU's lowerings, of those primitives that this version of JAX has."""
    of_cpu = mlir._platform_specific_lowerings["cpu"]
    for name in LINEAR_ALGEBRA:
        primitive = getattr(linalg, name, None)
        if primitive not in of_cpu:
            continue
        rule = of_cpu[primitive]
        mlir.register_lowering(primitive, getattr(rule, "rule", rule), platform=PLATFORM)


def initialize() -> None:
    """Called by JAX. Registers the platform."""
    xla_bridge.register_plugin(PLATFORM, priority=500, library_path=library_path())
    prepare_lowering()


def prepare_lowering() -> None:
    """Tells JAX what it must know to lower programs for the platform: that it takes donated
    arguments, and its linear algebra. Enough to export programs for it; may be called again."""
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    register_linear_algebra()
