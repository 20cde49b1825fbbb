# SPDX-License-Identifier: Apache-2.0
"""The execution provider in ONNX Runtime itself, beside ONNX Runtime's own kernels."""

import concurrent.futures
import pathlib

import numpy
import pytest

import plimsoll

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime", minversion="1.23")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

NODE_CASES = pathlib.Path("/usr/share/libonnx-testdata/data/node")

# Cases in which ONNX Runtime's own result is another one, and why.
OTHERS = {
    "bernoulli": "draws",
    "training_dropout": "draws",
    "dft": "ONNX Runtime's sums are off by up to 1e-4",
    "stft": "ONNX Runtime's sums are off by up to 1e-4",
    "maxunpool_export_with_output_shape": "ONNX Runtime places values by the shape without padding",
}


@pytest.fixture(scope="session")
def devices():
    onnxruntime.register_execution_provider_library("plimsoll", plimsoll.library_path())
    return [d for d in onnxruntime.get_ep_devices() if d.ep_name == "PlimsollExecutionProvider"]


def session(model, devices=None, **options):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    if devices is None:
        return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings.add_provider_for_devices(devices, options)
    return onnxruntime.InferenceSession(model, sess_options=settings)


def taken(made):
    """How many nodes each provider has."""
    counts = {}
    for part in made.get_provider_graph_assignment_info():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return counts


def perceptron(batch):
    random = numpy.random.default_rng(0)
    first = random.standard_normal((64, 256), dtype=numpy.float32)
    second = random.standard_normal((256, 10), dtype=numpy.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.parametrize("batch", [4, "batch"])
def test_runs_a_model_under_a_limit(devices, batch):
    model = perceptron(batch)
    ours, theirs = session(model, devices, memory_limit="256KiB"), session(model)
    assert taken(ours) == {"PlimsollExecutionProvider": 4}
    for rows in [4] if batch == 4 else [1, 4, 33]:
        x = numpy.random.default_rng(rows).standard_normal((rows, 64), dtype=numpy.float32)
        (got,), (want,) = ours.run(None, {"x": x}), theirs.run(None, {"x": x})
        numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_same_bits_at_every_limit_and_from_every_thread(devices):
    model = perceptron("batch")
    x = numpy.random.default_rng(1).standard_normal((500, 64), dtype=numpy.float32)
    (want,) = session(model, devices).run(None, {"x": x})
    limited = session(model, devices, memory_limit="1MiB")
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for (got,) in threads.map(lambda _: limited.run(None, {"x": x}), range(16)):
            assert got.tobytes() == want.tobytes()


def test_says_what_is_wrong(devices):
    with pytest.raises(Exception, match="no such provider option: 'memory_limitt'"):
        session(perceptron(4), devices, memory_limitt="1MiB")
    with pytest.raises(Exception, match="the smallest that would do is"):
        session(perceptron(4), devices, memory_limit="10KiB")
    late = session(perceptron("batch"), devices, memory_limit="10KiB")
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED.*the smallest that would do is"):
        late.run(None, {"x": numpy.zeros((4, 64), numpy.float32)})


def read(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def is_close(got, want):
    got, want = numpy.asarray(got), numpy.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind not in "fc":
        return numpy.array_equal(got, want)
    tolerance = 2e-3 if got.dtype == numpy.float16 else 1e-4
    return numpy.allclose(got.astype(numpy.float64), want.astype(numpy.float64), rtol=tolerance,
                          atol=1e-5, equal_nan=True)


@pytest.mark.skipif(not NODE_CASES.exists(), reason="libonnx-testdata is not installed")
def test_cases_of_the_standard(devices):
    onnxruntime.set_default_logger_severity(4)
    agree = on_ours = 0
    wrong = []
    for folder in sorted(NODE_CASES.iterdir()):
        name = folder.name.removeprefix("test_")
        try:  # what ONNX Runtime has no kernel for, and cases that are not of tensors alone
            theirs = session(str(folder / "model.onnx"))
            inputs = {one.name: read(folder / f"test_data_set_0/input_{i}.pb")
                      for i, one in enumerate(theirs.get_inputs())}
            want = theirs.run(None, inputs)
        except Exception:
            continue
        ours = session(str(folder / "model.onnx"), devices)
        got = ours.run(None, inputs)
        on_ours += "PlimsollExecutionProvider" in taken(ours)
        if len(got) == len(want) and all(map(is_close, got, want)):
            agree += 1
        elif not any(name.startswith(other) for other in OTHERS):
            wrong.append(name)
    print(f"{agree} cases agree, {on_ours} had nodes here")
    assert not wrong
    assert agree > 850 and on_ours > 820
