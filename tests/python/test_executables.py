# SPDX-License-Identifier: Apache-2.0
"""Programs: loading, limits, runs, donation, errors."""

import pickle
import threading

import numpy as np
import pytest

import plimsoll


def chain(layers=6):
    """Layers whose values are all read again, last first, as gradients do."""
    product = "dot({}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    lines = ["h0 = f32[256,256] parameter(0)", "w = f32[256,256] parameter(1)"]
    for i in range(layers):
        lines.append(f"p{i} = f32[256,256] " + product.format(f"h{i}"))
        lines.append(f"h{i + 1} = f32[256,256] tanh(p{i})")
    lines.append(f"g{layers} = f32[256,256] negate(h{layers})")
    for i in reversed(range(layers)):
        lines.append(f"q{i} = f32[256,256] " + product.format(f"g{i + 1}"))
        lines.append(f"g{i} = f32[256,256] multiply(q{i}, h{i})")
    lines[-1] = "ROOT " + lines[-1]
    return "HloModule chain\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


CHAIN = chain()
STEP = """HloModule step, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[1024] parameter(0)
  y = f32[1024] parameter(1)
  ROOT z = f32[1024] add(x, y)
}
"""


@pytest.fixture
def context():
    return plimsoll.Context()


def arguments():
    rng = np.random.default_rng(0)
    return [rng.standard_normal((256, 256), np.float32) / 16 for _ in range(2)]


def test_describes_the_program(context):
    program = context.load(STEP)
    assert program.name == "step"
    assert [(p.name, p.dtype, p.shape, p.nbytes) for p in program.parameters] == [
        ("x", "f32", (1024,), 4096),
        ("y", "f32", (1024,), 4096),
    ]
    (result,) = program.results
    assert result.aliased_parameter == 0
    assert program.peak_bytes >= program.floor_bytes > 0
    assert program.summary["peak_bytes"] == program.peak_bytes


def test_same_bits_at_the_floor(context):
    free = context.load(CHAIN)
    tight = context.load(CHAIN, memory_limit=free.floor_bytes)
    assert tight.peak_bytes <= free.floor_bytes < free.peak_bytes
    given = arguments()
    (expected,) = free(*given)
    (got,) = tight(*given)
    assert np.asarray(expected).tobytes() == np.asarray(got).tobytes()


def test_a_share_of_the_peak_is_a_limit(context):
    free = context.load(CHAIN)
    assert context.load(CHAIN, memory_limit="95%peak").peak_bytes <= free.peak_bytes * 0.95


def test_below_the_floor_is_an_error_with_floor_and_culprit(context):
    floor = context.load(CHAIN).floor_bytes
    with pytest.raises(plimsoll.Error) as caught:
        context.load(CHAIN, memory_limit=floor // 2)
    error = caught.value
    assert (error.code, error.floor_bytes, error.limit_bytes) == (
        "RESOURCE_EXHAUSTED",
        floor,
        floor // 2,
    )
    assert error.culprit
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.floor_bytes, str(again)) == (error.code, floor, str(error))


def test_bad_text_is_an_error_with_its_place(context):
    with pytest.raises(plimsoll.Error, match="INVALID_ARGUMENT: mine:3:") as caught:
        context.load("HloModule m\nENTRY main {\n  x = f33[2] parameter(0)\n}", name="mine")
    assert caught.value.floor_bytes == 0


def test_loads_files(context, tmp_path):
    file = tmp_path / "step.hlo"
    file.write_text(STEP)
    assert context.load(file).name == "step"
    with pytest.raises(TypeError, match="list"):
        context.load([STEP])


def test_donated_buffers_are_taken_over_and_arrays_are_not(context):
    step = context.load(STEP)
    array = np.ones(1024, np.float32)
    state = context.buffer(array)
    (next_state,) = step(state, array)
    assert state.is_deleted and not next_state.is_deleted
    (again,) = step(array, array)
    assert array.sum() == 1024 and np.asarray(again).sum() == 2048


def test_runs_in_order_without_waiting(context):
    step = context.load(STEP)
    one = context.buffer(np.ones(1024, np.float32))
    state = context.buffer(np.zeros(1024, np.float32))
    for _ in range(100):
        (state,) = step.run(state, one, asynchronous=True)
    assert np.asarray(state.wait()).tolist() == [100.0] * 1024


def test_wrong_arguments_are_errors(context):
    step = context.load(STEP)
    with pytest.raises(plimsoll.Error, match="INVALID_ARGUMENT"):
        step(np.ones(3, np.float32), np.ones(1024, np.float32))
    with pytest.raises(plimsoll.Error, match="INVALID_ARGUMENT"):
        step(np.ones(1024, np.float32))


def test_threads_share_an_executable_under_one_limit():
    program = plimsoll.Context().load(CHAIN)
    context = plimsoll.Context(program.peak_bytes + program.floor_bytes)
    shared = context.load(CHAIN)
    given = arguments()
    expected = np.array(shared(*given)[0])
    different = []

    def work():
        for _ in range(10):
            (got,) = shared(*given)
            if not np.array_equal(np.asarray(got), expected):
                different.append(got)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not different
    assert context.memory()["peak_bytes"] <= context.limit_bytes


def test_a_text_may_be_the_path_of_a_program(tmp_path):
    path = tmp_path / "double.hlo"
    path.write_text("HloModule m\nENTRY main { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }")
    assert plimsoll.plan(str(path)).floor_bytes == plimsoll.plan(path).floor_bytes
    (y,) = plimsoll.Context().load(str(path))(np.ones(4, np.float32))
    assert np.asarray(y).tolist() == [2.0] * 4
    with pytest.raises(FileNotFoundError):
        plimsoll.plan(str(tmp_path / "other.hlo"))


def test_errors_of_plans_name_what_python_calls_it():
    text = "HloModule m\nENTRY main { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }"
    with pytest.raises(plimsoll.Error) as error:
        plimsoll.plan(text, memory_limit="banana")
    assert error.value.message.startswith("memory_limit: 'banana'")
    with pytest.raises(plimsoll.Error) as error:
        plimsoll.plan(text.replace("add", "ad"))
    assert error.value.message.startswith("program:3:")
    with pytest.raises(plimsoll.Error) as error:
        plimsoll.plan(text).explain("nothing")
    assert "--" not in error.value.message
    with pytest.raises(plimsoll.Error) as error:
        plimsoll.plan(text).write_report("/nowhere/page.html")
    assert error.value.code == "UNAVAILABLE"
