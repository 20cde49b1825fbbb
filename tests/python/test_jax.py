# SPDX-License-Identifier: Apache-2.0
"""JAX on the installed package: a GPT's training step at limits, plans of JAX functions."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

import plimsoll

jax = pytest.importorskip("jax")
import gpt_step  # noqa: E402
from processes import printed  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("gpt_step.py")


def train(**environment):
    """Trains the GPT in a process of its own."""
    return subprocess.run(
        [sys.executable, PROGRAM],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trained(**environment):
    done = train(**environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def step_plan():
    return plimsoll.plan(gpt_step.train_step, gpt_step.initial_state(), gpt_step.batch(0))


@pytest.fixture(scope="module")
def unlimited():
    return trained()


def test_trains_as_on_the_cpu(unlimited):
    assert unlimited["platform"] == "plimsoll"
    expected = trained(JAX_PLATFORMS="cpu")
    assert expected["platform"] == "cpu"
    np.testing.assert_allclose(unlimited["losses"], expected["losses"], rtol=2e-5)
    assert unlimited["losses"][-1] < unlimited["losses"][0]


@pytest.mark.parametrize("above_floor", [1.05, 1.3])
def test_same_bits_under_a_limit(step_plan, unlimited, above_floor):
    limit = int(step_plan.floor_bytes * above_floor)
    assert limit < step_plan.unlimited_peak_bytes
    limited = trained(PLIMSOLL_MEMORY_LIMIT=str(limit))
    assert limited["sha256"] == unlimited["sha256"]
    assert limited["losses"] == unlimited["losses"]
    assert limited["memory"]["bytes_limit"] == limit
    assert limited["memory"]["peak_bytes_in_use"] <= limit


def test_below_the_floor_jax_says_what_would_do(step_plan):
    done = train(PLIMSOLL_MEMORY_LIMIT=str(int(step_plan.floor_bytes * 0.8)))
    assert done.returncode != 0
    assert "RESOURCE_EXHAUSTED" in done.stderr
    assert str(step_plan.floor_bytes) in done.stderr


@pytest.mark.parametrize("platforms", ["plimsoll,cpu", "plimsoll", "cpu", ""])
def test_plans_before_jax_has_started_a_backend(platforms):
    program = (
        "import jax, plimsoll, jax.numpy as jnp\n"
        "plan = plimsoll.plan(jnp.linalg.cholesky, jax.ShapeDtypeStruct((4, 4), jnp.float32))\n"
        "print(plan.floor_bytes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JAX_PLATFORMS": platforms},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 128


def test_plan_has_floor_peak_and_frontier(step_plan):
    plan = step_plan
    assert plan.limit_bytes is None
    assert 0 < plan.floor_bytes < plan.peak_bytes == plan.unlimited_peak_bytes
    assert plan.predicted_seconds == plan.unlimited_seconds > 0
    limits = [point.limit_bytes for point in plan.frontier]
    assert limits == sorted(limits)
    assert limits[0] == plan.floor_bytes and limits[-1] == plan.unlimited_peak_bytes
    seconds = [point.predicted_seconds for point in plan.frontier]
    assert seconds == sorted(seconds, reverse=True)
    assert all(point.peak_bytes <= point.limit_bytes for point in plan.frontier)
    assert "floor" in plan.report and "frontier" in plan.report


def test_plan_under_a_limit(step_plan, tmp_path):
    plan = plimsoll.plan(
        gpt_step.train_step,
        gpt_step.initial_state(),
        gpt_step.batch(0),
        memory_limit=step_plan.floor_bytes,
    )
    assert plan.limit_bytes == step_plan.floor_bytes >= plan.peak_bytes
    assert plan.predicted_seconds > step_plan.predicted_seconds
    plan.write_report(tmp_path / "plan.html")
    assert "<html" in (tmp_path / "plan.html").read_text()
    with pytest.raises(plimsoll.Error) as caught:
        plimsoll.plan(
            gpt_step.train_step, gpt_step.initial_state(), gpt_step.batch(0), memory_limit="100KiB"
        )
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert caught.value.floor_bytes == step_plan.floor_bytes
    assert caught.value.culprit


def test_plan_of_a_plain_function_and_of_shapes():
    shape = jax.ShapeDtypeStruct((128, 128), np.float32)
    plan = plimsoll.plan(lambda x, y: x @ y, shape, y=shape)
    arrays = 3 * 128 * 128 * 4
    assert arrays <= plan.peak_bytes < arrays * 1.05  # and a workspace


def test_plan_counts_donated_arguments_once():
    array = np.zeros((256, 256), np.float32)
    kept = plimsoll.plan(jax.jit(lambda x: x + 1), array)
    donated = plimsoll.plan(jax.jit(lambda x: x + 1, donate_argnums=0), array)
    assert (donated.peak_bytes, kept.peak_bytes) == (array.nbytes, 2 * array.nbytes)


@pytest.mark.parametrize("platform", ["plimsoll", "cpu"])
def test_takes_jax_arrays(platform):
    array = jax.device_put(np.arange(6, dtype=np.float32), jax.devices(platform)[0])
    context = plimsoll.Context()
    program = context.load(jax.export.export(jax.jit(lambda x: x + 1))(array))
    (result,) = program(array)
    assert np.asarray(result).tolist() == [1, 2, 3, 4, 5, 6]
    assert np.asarray(context.buffer(array)).tolist() == [0, 1, 2, 3, 4, 5]


def test_runs_what_jax_exports():
    exported = jax.export.export(jax.jit(lambda x: jax.numpy.sin(x) * 2))(np.ones(5, np.float32))
    context = plimsoll.Context()
    x = np.arange(5, dtype=np.float32)
    for program in (exported, exported.mlir_module_serialized, bytes(exported.serialize())):
        (y,) = context.load(program)(x)
        np.testing.assert_allclose(np.asarray(y), np.sin(x) * 2, rtol=1e-6)


CALLBACKS = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback

seen = []
x = jnp.arange(4.0)


@jax.jit
def f(x):
    def body(i, x):
        jax.debug.print("round {i}", i=i, ordered=True)
        return x + jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    x = jax.lax.fori_loop(0, 3, body, x)
    io_callback(lambda x: seen.append(x.sum()), None, x, ordered=True)
    return x


y = f(x)
jax.effects_barrier()
expected = np.arange(4, dtype=np.float32)
for _ in range(3):
    expected = expected + np.sin(expected)
np.testing.assert_array_equal(y, expected)
np.testing.assert_allclose(seen, [expected.sum()])


def bad(x):
    raise ValueError("the tide is out")


try:
    jax.jit(lambda x: jax.pure_callback(bad, x, x))(x).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    assert "the tide is out" in str(error), error
else:
    raise AssertionError("no error")
np.testing.assert_array_equal(jax.lax.approx_min_k(x, 2)[1], [0, 1])
"""


def test_programs_call_python():
    done = subprocess.run(
        [sys.executable, "-c", CALLBACKS],
        env={**os.environ, "JAX_PLATFORMS": "plimsoll,cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["round 0", "round 1", "round 2"]


def test_jax_keeps_programs_in_its_compilation_cache(tmp_path):
    program = """
import jax, jax.numpy as jnp, jax.monitoring
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
f = jax.jit(lambda x: jnp.tanh(x) @ x.T)
x = jnp.ones((8, 8))
events.clear()
result = f(x)
cpu = jax.devices("cpu")[0]
jax.block_until_ready(jax.jit(lambda x: x * 3)(jax.device_put(1.0, cpu)))
hits = sum(event.endswith("cache_hits") for event in events)
print(float(result.sum()), hits)
"""
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def run():
        total, hits = printed(program, **environment).split()
        return float(total), int(hits)

    first, hits = run()
    assert hits == 0
    kept = [path.name for path in tmp_path.iterdir() if path.name.endswith("-cache")]
    assert any("lambda" in name for name in kept), kept
    # Both platforms' programs are found.
    assert run() == (first, 2)


def test_effects_are_over_when_the_call_returns():
    program = """
import jax, jax.numpy as jnp

seen = []
def body(i, x):
    jax.debug.callback(seen.append, i)
    return jnp.tanh(x @ x)

f = jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))
for _ in range(3):
    f(jnp.eye(300))
    print(len(seen))
"""
    assert printed(program) == "5\n10\n15\n"


@pytest.mark.parametrize("ordered", [False, True])
def test_a_failed_effect_raises_from_one_wait(ordered):
    program = f"""
import jax

def fail(x):
    raise ValueError("no")

seen = []
f = jax.jit(lambda x: (jax.debug.callback(fail, x, ordered={ordered}), x + 1)[1])
g = jax.jit(lambda x: (jax.debug.callback(seen.append, x, ordered={ordered}), x + 2)[1])
f(1.0)
try:
    jax.effects_barrier()
except jax.errors.JaxRuntimeError as error:
    assert "ValueError: no" in str(error)
else:
    raise AssertionError("nothing was raised")
jax.effects_barrier()
assert g(1.0) == 3
jax.effects_barrier()
print(len(seen))
"""
    assert printed(program) == "1\n"


def test_what_ran_out_of_memory_is_named_and_raised_from_the_results():
    program = """
import jax, jax.numpy as jnp

def double(x):
    return x + x

f = jax.jit(double)
x = jnp.ones((1024, 1024))
kept = [f(x) for _ in range(8)]
try:
    jax.block_until_ready(kept)
except jax.errors.JaxRuntimeError as error:
    print(str(error).split(":")[:2])
"""
    assert printed(program, PLIMSOLL_MEMORY_LIMIT="20MiB") == "['RESOURCE_EXHAUSTED', ' running jit_double']\n"


SHARDED_STEPS = """
import sys
import jax
rank, count, port = map(int, sys.argv[1:])
if count > 1:
    jax.distributed.initialize(f"localhost:{port}", count, rank)
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
rows = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
own = rows.shape[0] // count
batch = jax.make_array_from_process_local_data(
    NamedSharding(mesh, P("data")), rows[rank * own : (rank + 1) * own]
)

@jax.jit
def step(weights, batch):
    def loss(weights):
        hidden = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), batch, weights)[0]
        return (hidden**2).mean()

    return weights - 0.1 * jax.grad(loss)(weights)

weights = jax.device_put(
    np.random.default_rng(1).normal(size=(3, 16, 16)).astype(np.float32) / 4,
    NamedSharding(mesh, P(None, "data")),
)
for _ in range(5):
    weights = step(weights, batch)
whole = jax.jit(lambda w: w, out_shardings=NamedSharding(mesh, P()))(weights)
print(np.asarray(whole.addressable_data(0)).tobytes().hex())
"""


def test_several_processes_train_as_several_devices_of_one():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]

    def start(rank, count, devices, **environment):
        return subprocess.Popen(
            [sys.executable, "-c", SHARDED_STEPS, str(rank), str(count), str(port)],
            env={
                **os.environ,
                "JAX_PLATFORMS": "plimsoll,cpu",
                "JAX_PJRT_CLIENT_CREATE_OPTIONS": f"num_devices:{devices}",
                **environment,
            },
            stdout=subprocess.PIPE,
            text=True,
        )

    alone = start(0, 1, 2).communicate(timeout=120)[0]
    together = [start(rank, 2, 1, PLIMSOLL_MEMORY_LIMIT="16KiB") for rank in range(2)]
    assert [one.communicate(timeout=120)[0] for one in together] == [alone, alone]
    assert len(alone) == 2 * 4 * 3 * 16 * 16 + 1


def test_arrays_in_host_memory():
    """Momentum and weights of a layer that are in host memory between steps: the same values, and
    less device memory."""
    host = jax.memory.Space.Host
    device = jax.devices()[0]

    def step(w, m, x):
        w, m = (jax.device_put(one, jax.memory.Space.Device) for one in (w, m))
        m = 0.9 * m + jax.grad(lambda w: (jax.numpy.tanh(x @ w) ** 2).sum())(w)
        return jax.device_put(w - 0.1 * m, host), jax.device_put(m, host)

    x = np.linspace(-1, 1, 64 * 128, dtype=np.float32).reshape(64, 128)
    given = [np.full((128, 128), 0.01, np.float32), np.zeros((128, 128), np.float32)]
    kept = [jax.device_put(one, host) for one in given]
    assert all(one.sharding.memory_kind == "pinned_host" for one in kept)
    offloaded = jax.jit(step, donate_argnums=(0, 1))
    statistics = offloaded.lower(*kept, x).compile().memory_analysis()
    made = offloaded(*kept, x)
    assert all(one.is_deleted() for one in kept)
    assert [one.sharding.memory_kind for one in made] == ["pinned_host"] * 2
    assert statistics.host_output_size_in_bytes == 2 * 128 * 128 * 4
    plain = jax.jit(step)(*(jax.device_put(one, device) for one in given), x)
    for one, other in zip(made, plain):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    back = jax.device_put(made[0], jax.memory.Space.Device)
    assert back.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(back), np.asarray(made[0]))
    # Any pages of the host: a kind of its own, of arguments and results.
    unpinned = jax.sharding.SingleDeviceSharding(device, memory_kind="unpinned_host")
    loose = jax.device_put(given[0], unpinned)
    doubled = jax.jit(lambda w: (2 * w.sum(axis=0), w), out_shardings=unpinned)(loose)
    assert [one.sharding.memory_kind for one in (loose, *doubled)] == ["unpinned_host"] * 3
    np.testing.assert_allclose(np.asarray(doubled[0]), 2 * given[0].sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(doubled[1]), given[0])
