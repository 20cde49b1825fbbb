# SPDX-License-Identifier: Apache-2.0
"""Programs through the doors for Python, on the device that PLIMSOLL_DEVICE names (docs/gpu.md).

    PLIMSOLL_DEVICE=cuda:0 PYTHONPATH=plugins/jax:python python3 scripts/gpu_doors.py [CHECK...]

PLIMSOLL_PJRT_LIBRARY names the library where it is not that of a build of this tree. Each check is a
process of its own; one line says how it went, the last one how many did. What a check needs and the
machine has not (JAX, PyTorch, CuPy) is skipped and said. Exit code 1 where one failed.
"""

import hashlib
import os
import subprocess
import sys
import time

CHECKS = {}
SKIPPED = 77


def check(function):
    CHECKS[function.__name__] = function
    return function


def module(name: str):
    try:
        return __import__(name)
    except ImportError as error:
        print(f"{name} is not there: {error}")
        sys.exit(SKIPPED)


def digest(arrays) -> str:
    import numpy as np

    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(np.asarray(array)).tobytes())
    return made.hexdigest()[:16]


# The package's own arrays and programs.


@check
def package_runs_programs_under_a_limit():
    np, plimsoll = module("numpy"), module("plimsoll")
    context = plimsoll.Context("64MiB")
    print(context.device, "host memory" if context.is_host_memory else "its own memory")
    assert context.device == os.environ.get("PLIMSOLL_DEVICE", "cpu")
    program = context.load(
        "HloModule m\nENTRY main { x = f32[1024,256] parameter(0) y = f32[1024,256] parameter(1) "
        "d = f32[1024,1024] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1} "
        "ROOT t = f32[1024,1024] tanh(d) }"
    )
    x, y = (np.random.default_rng(i).standard_normal((1024, 256), np.float32) for i in (1, 2))
    result = program(x, context.buffer(y))
    assert np.allclose(np.asarray(result), np.tanh(x @ y.T), atol=1e-4)
    memory = context.memory()
    assert 0 < memory["used_bytes"] <= memory["peak_bytes"] <= memory["limit_bytes"] == 64 << 20
    del result
    assert context.memory()["used_bytes"] == 0
    try:
        context.buffer(np.zeros(32 << 20, np.float32))
    except plimsoll.Error as error:
        assert error.code == "RESOURCE_EXHAUSTED", error
    else:
        raise AssertionError("128 MiB in 64 MiB")


@check
def package_arrays_of_every_kind_come_back():
    np, plimsoll = module("numpy"), module("plimsoll")
    context = plimsoll.Context()
    for dtype in (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, np.complex64):
        array = np.arange(60).reshape(3, 4, 5).astype(dtype)
        for given in (array, array[:, ::2], array.transpose(2, 0, 1), array[:0]):
            buffer = context.buffer(given)
            assert np.array_equal(np.asarray(buffer), given), (dtype, given.shape)
            capsule = buffer.__dlpack__(dl_device=(1, 0))
            assert "dltensor" in repr(capsule)


@check
def package_shares_memory_with_torch():
    np, plimsoll, torch = module("numpy"), module("plimsoll"), module("torch")
    context = plimsoll.Context()
    if context.is_host_memory or not torch.cuda.is_available():
        print("no GPU that both use")
        sys.exit(SKIPPED)
    array = np.arange(4096, dtype=np.float32).reshape(64, 64)
    buffer = context.buffer(array)
    tensor = torch.from_dlpack(buffer)
    assert tensor.is_cuda and torch.equal(tensor.cpu(), torch.from_numpy(array))
    del buffer
    assert context.memory()["used_bytes"] == array.nbytes
    assert float((tensor * 2).sum()) == 2 * float(array.sum())
    del tensor
    assert context.memory()["used_bytes"] == 0
    program = context.load(
        "HloModule m\nENTRY main { x = f32[64,64] parameter(0) ROOT t = f32[64,64] negate(x) }"
    )
    mine = torch.arange(4096, dtype=torch.float32, device="cuda").reshape(64, 64)
    borrowed = context.from_dlpack(mine)
    assert context.memory()["used_bytes"] == array.nbytes
    result = torch.from_dlpack(program(borrowed))
    assert torch.equal(result, -mine)
    turned = context.from_dlpack(mine.t())  # not dense: a copy
    assert np.array_equal(np.asarray(turned), array.T)
    flags = context.from_dlpack(mine > 100)
    assert np.array_equal(np.asarray(flags), array > 100)
    # What is enqueued on PyTorch's stream is there before a program reads it.
    for i in range(50):
        busy = torch.full((2048, 2048), float(i), device="cuda")
        busy = busy @ torch.eye(2048, device="cuda")
        part = busy[:64, :64].contiguous()
        assert np.all(np.asarray(program(context.from_dlpack(part))) == -i), i


# JAX.


def jax_module():
    os.environ.setdefault("JAX_PLATFORMS", "plimsoll,cpu")
    jax = module("jax")
    device = jax.devices()[0]
    print(device, device.device_kind, jax.__version__)
    assert device.platform == "plimsoll"
    assert device.device_kind == os.environ.get("PLIMSOLL_DEVICE", "cpu")
    return jax


def training_step(jax):
    import jax.numpy as jnp

    def loss(weights, x, y):
        for w, b in weights[:-1]:
            x = jax.nn.gelu(x @ w + b)
            x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        w, b = weights[-1]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w + b) * y, -1))

    @jax.jit
    def step(weights, x, y):
        value, gradient = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value

    sizes = (256, 512, 512, 512, 512, 10)
    keys = jax.random.split(jax.random.key(0), len(sizes))
    weights = [
        (jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n))
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]
    x = jax.random.normal(keys[-1], (1024, sizes[0]))
    y = jax.nn.one_hot(jnp.arange(1024) % 10, 10)
    return jax.jit(step, donate_argnums=0), weights, x, y


def step_digest() -> None:
    """The bits of three steps, their losses and the peak, under the limit of the process."""
    jax = jax_module()
    step, weights, x, y = training_step(jax)
    losses = []
    start = time.monotonic()
    for _ in range(3):
        weights, value = step(weights, x, y)
        losses.append(float(value))
    assert losses[2] < losses[0], losses
    stats = jax.devices()[0].memory_stats()
    print(f"{time.monotonic() - start:.1f} s, losses {losses}")
    print("PEAK", stats["peak_bytes_in_use"], stats.get("bytes_limit"))
    print("DIGEST", digest(jax.tree.leaves(weights)))


@check
def jax_trains_with_the_same_bits_at_two_limits():
    found = {}
    # Between its floor and its peak, with some 20 MiB for code and libraries.
    for limit in ("", "56MiB", "44MiB"):
        environment = dict(os.environ)
        if limit:
            environment["JAX_PJRT_CLIENT_CREATE_OPTIONS"] = f"memory_limit:{limit}"
        done = subprocess.run(
            [sys.executable, __file__, "--step"], env=environment, capture_output=True, text=True
        )
        print(done.stdout, done.stderr[-2000:], sep="")
        assert done.returncode == 0, (limit, done.returncode)
        words = [line.split() for line in done.stdout.splitlines()]
        values = {line[0]: line[1:] for line in words if line}
        if limit:
            assert int(values["PEAK"][0]) <= int(values["PEAK"][1])
        found[limit] = values["DIGEST"][0]
    assert len(set(found.values())) == 1, found


@check
def jax_arrays_programs_and_memory_kinds():
    jax = jax_module()
    import jax.numpy as jnp
    import numpy as np

    x = np.random.default_rng(1).standard_normal((64, 48)).astype(np.float32)
    on_device = jax.device_put(x)
    assert np.array_equal(np.asarray(on_device), x)
    assert np.array_equal(np.asarray(on_device[3:7, ::2]), x[3:7, ::2])
    for dtype in (jnp.bfloat16, jnp.int8, jnp.bool_, jnp.float16, jnp.complex64, jnp.int4):
        small = np.arange(-4, 4).astype(np.float32)
        there = jnp.asarray(small).astype(dtype)
        with jax.default_device(jax.devices("cpu")[0]):
            here = jnp.asarray(small).astype(dtype)
        assert np.array_equal(np.asarray(there), np.asarray(here)), dtype
    for kind in ("pinned_host", "unpinned_host", "device"):
        place = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=kind)
        moved = jax.device_put(on_device, place)
        assert moved.sharding.memory_kind == kind
        assert np.array_equal(np.asarray(moved), x), kind
        assert np.array_equal(np.asarray(jax.jit(lambda a: a + 1)(jax.device_put(moved))), x + 1)
    donated = jax.jit(lambda a: 2 * a, donate_argnums=0)(on_device)
    assert on_device.is_deleted() and np.array_equal(np.asarray(donated), 2 * x)
    _, sorted_ = jax.lax.sort_key_val(-donated, donated)
    assert np.array_equal(np.asarray(sorted_), -np.sort(-2 * x, axis=-1))
    values, places = jax.lax.top_k(jnp.asarray(x), 5)
    assert np.array_equal(np.asarray(values), -np.sort(-x, axis=-1)[:, :5])
    assert np.array_equal(np.take_along_axis(x, np.asarray(places), -1), np.asarray(values))
    total = jax.lax.fori_loop(0, 10, lambda i, s: s + jnp.sum(jnp.asarray(x)[i]), 0.0)
    assert np.allclose(total, x[:10].sum(), rtol=1e-4)


@check
def jax_transforms_and_linear_algebra_have_the_hosts_results():
    jax = jax_module()
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(2)
    a = rng.standard_normal((32, 32)).astype(np.float32)
    spd = a @ a.T + 32 * np.eye(32, dtype=np.float32)
    b = rng.standard_normal((32, 3)).astype(np.float32)
    wave = rng.standard_normal((4, 96)).astype(np.float32)
    close = lambda made, wanted, tolerance=2e-3: np.testing.assert_allclose(
        np.asarray(made), wanted, rtol=tolerance, atol=tolerance
    )
    close(jax.jit(jnp.fft.rfft)(wave), np.fft.rfft(wave))
    close(jax.jit(lambda w: jnp.fft.ifft2(jnp.fft.fft2(w)).real)(wave), wave)
    close(jax.jit(jnp.linalg.cholesky)(spd), np.linalg.cholesky(spd))
    close(jax.jit(jnp.linalg.solve)(spd, b), np.linalg.solve(spd, b))
    close(jax.jit(jnp.linalg.eigvalsh)(spd), np.linalg.eigvalsh(spd), 2e-2)
    close(jax.jit(jnp.linalg.det)(a / 4), np.linalg.det(a / 4), 1e-2)
    q, r = jax.jit(jnp.linalg.qr)(a)
    close(q @ r, a)
    u, s, v = jax.jit(lambda m: jnp.linalg.svd(m, full_matrices=False))(a)
    close((u * s) @ v, a)
    gradient = jax.jit(jax.grad(lambda m: jnp.linalg.slogdet(m)[1]))(spd)
    close(gradient, np.linalg.inv(spd).T)
    numbers = jax.random.normal(jax.random.key(7), (1000,))
    with jax.default_device(jax.devices("cpu")[0]):
        close(numbers, np.asarray(jax.random.normal(jax.random.key(7), (1000,))), 1e-5)


@check
def jax_programs_call_python():
    jax = jax_module()
    import numpy as np

    seen = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x[0])
        y = jax.pure_callback(np.cumsum, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return y * 2

    x = np.arange(100, dtype=np.float32)
    for _ in range(3):
        assert np.array_equal(np.asarray(f(x)), 2 * np.cumsum(x))
    jax.effects_barrier()
    assert seen == [0.0] * 3, seen


@check
def jax_says_what_does_not_fit():
    jax = jax_module()
    import jax.numpy as jnp

    f = jax.jit(
        lambda x: jnp.tanh(x).T @ x, compiler_options={"plimsoll_memory_limit": "1MiB"}
    )
    try:
        f(jnp.ones((1024, 1024)))
    except Exception as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
    else:
        raise AssertionError("12 MiB in 1 MiB")


def main() -> int:
    if sys.argv[1:2] == ["--step"]:
        step_digest()
        return 0
    if sys.argv[1:2] == ["--check"]:
        CHECKS[sys.argv[2]]()
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in sys.argv[1:] or CHECKS:
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, __file__, "--check", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        how = {0: "passed", SKIPPED: "skipped"}.get(done.returncode, "failed")
        counts[how] += 1
        print(f"{how}: {name} ({time.monotonic() - start:.1f} s)")
        lines = done.stdout.splitlines()
        for line in lines[-60:] if how == "failed" else lines[-6:]:
            print("    " + line[:400])
        sys.stdout.flush()
    print(", ".join(f"{count} {how}" for how, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
