# SPDX-License-Identifier: Apache-2.0
"""Makes Plimsoll a platform of JAX. JAX finds this package by its place, `jax_plugins.plimsoll`, and
calls `initialize`; nothing else is to be done but to have its parent folder on the Python path."""

import ctypes
import os
import pathlib

import jax  # with all of its primitives and their lowerings
import jax._src.xla_bridge as xla_bridge
from jax._src import compilation_cache, dispatch, distributed
from jax._src.interpreters import mlir
from jax._src.lax import ann

from jax_plugins.plimsoll import callbacks

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


# Primitives that are lowered as JAX does for CPUs: linear algebra to functions of LAPACK, whose names
# the library knows, where for a platform that it does not know JAX has slower ways or none; random
# bits by a loop over rounds, which holds fewer arrays than rounds written one after the other; calls
# of Python functions.
AS_ON_CPUS = frozenset(
    "cholesky eig eigh geqp3 geqrf hessenberg householder_product lu ormqr schur svd triangular_solve "
    "tridiagonal tridiagonal_solve threefry2x32 check debug_callback debug_print".split()
)


def top_k(operand, *, k, reduction_dimension, is_max_k, **options):
    """`approx_max_k` and `approx_min_k`, exactly: as many as are asked for before they are
    aggregated."""
    results = ann.approx_top_k_p.abstract_eval(
        jax.typeof(operand),
        k=k,
        reduction_dimension=reduction_dimension,
        is_max_k=is_max_k,
        **options,
    )
    size = results[0][0].shape[reduction_dimension]
    moved = jax.numpy.moveaxis(operand, reduction_dimension, -1)
    values, indices = jax.lax.top_k(moved if is_max_k else -moved, size)
    values = values if is_max_k else -values
    return tuple(jax.numpy.moveaxis(one, -1, reduction_dimension) for one in (values, indices))


def register_cpu_lowerings() -> None:
    """Gives the platform the CPU's lowerings, of those primitives that this version of JAX has."""
    for primitive, entry in list(mlir._platform_specific_lowerings["cpu"].items()):
        if primitive.name in AS_ON_CPUS:
            mlir.register_lowering(primitive, getattr(entry, "rule", entry), platform=PLATFORM)


def register_moves() -> None:
    """Has programs say where values are moved to between device and host memory, as JAX does for the
    platforms that it knows. Does nothing where this version of JAX is another."""
    lowering = getattr(dispatch, "_tpu_gpu_device_put_lowering", None)
    if lowering is not None:
        mlir.register_lowering(dispatch.device_put_p, lowering, platform=PLATFORM)


def load_apart(path: str) -> None:
    """Loads the library so that it finds its own LLVM and no other one, such as TensorFlow's, which
    shows its symbols to the whole process. What JAX loads from the same path afterwards is this.
    Whatever goes wrong JAX finds again, and says."""
    # A sanitizer has to come before everything else.
    if "san.so" in os.environ.get("LD_PRELOAD", "") or not hasattr(os, "RTLD_DEEPBIND"):
        return
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
    except OSError:
        pass


def client_options() -> dict:
    """What a client is made with beside JAX_PJRT_CLIENT_CREATE_OPTIONS: of several processes the host
    that all reach, by which they tell each other their addresses."""
    address = getattr(distributed.global_state, "coordinator_address", None)
    if distributed.global_state.client is None or not address:
        return {}
    return {"coordinator": address.rpartition(":")[0].strip("[]")}


def initialize() -> None:
    """Called by JAX. Registers the platform."""
    path = library_path()
    load_apart(path)
    xla_bridge.register_plugin(
        PLATFORM, priority=500, library_path=path, options=client_options
    )
    prepare_lowering()
    use_compilation_cache()


def use_compilation_cache() -> None:
    """Has JAX keep compiled programs for the platform in its persistent cache, which it does for
    platforms that it knows by name. May be called again. Does nothing where this version of JAX is
    another."""
    original = getattr(compilation_cache, "is_cache_used", None)
    is_enabled = getattr(compilation_cache, "_is_cache_enabled", None)
    if original is None or is_enabled is None or hasattr(original, "plimsoll"):
        return

    def is_cache_used(backend):
        # The original's first answer stands for all platforms: it is asked about others only.
        return is_enabled() if backend.platform == PLATFORM else original(backend)

    is_cache_used.plimsoll = True
    compilation_cache.is_cache_used = is_cache_used


def prepare_lowering() -> None:
    """Tells JAX what it must know to lower programs for the platform: that there is one, that it
    takes donated arguments, its linear algebra, and how it calls Python. Enough to export programs
    for it, before JAX has started a backend and whichever it starts; may be called again."""
    if not xla_bridge.is_known_platform(PLATFORM):
        xla_bridge._discover_and_register_pjrt_plugins()  # which calls `initialize`
        if not xla_bridge.is_known_platform(PLATFORM):
            initialize()  # once more, for the error, which JAX only logs
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    register_cpu_lowerings()
    register_moves()
    mlir.register_lowering(
        ann.approx_top_k_p, mlir.lower_fun(top_k, multiple_results=True), platform=PLATFORM
    )
    callbacks.install(PLATFORM, library_path)
