# SPDX-License-Identifier: Apache-2.0
"""Speaks to a running server by tritonclient, as its users do.

    python3 tests/serve/tritonclient_test.py HOST:PORT

The models are those that scripts/serve_tests.sh makes: `add`, `negate` (64 MiB) and `rows`.
"""
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def tensor(name, array, datatype="FP32", binary=True):
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def expect_error(status, part, call):
    try:
        call()
    except InferenceServerException as error:
        assert str(status) in str(error.status()), (error.status(), error)
        assert part in str(error), error
        return
    raise AssertionError(f"no error {status}")


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("add") and client.is_model_ready("add", "1")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata()["name"] == "plimsoll"
    about = client.get_model_metadata("rows")
    assert [one["shape"] for one in about["inputs"]] == [[-1, 64], [64, 32]], about
    assert {one["name"] for one in client.get_model_repository_index()} == {"add", "negate", "rows"}


def test_json_and_binary(client):
    a = np.array([[0.1, -0.0, 1e-45], [3.4e38, 1 / 3, -7]], np.float32)
    b = np.full((2, 3), 0.5, np.float32)
    results = []
    for binary in (False, True):
        outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("sum", "difference")]
        result = client.infer(
            "add", [tensor("a", a, binary=binary), tensor("b", b, binary=binary)], outputs=outputs, request_id="17")
        assert result.get_response()["id"] == "17"
        results.append([result.as_numpy(name).astype(np.float32) for name in ("sum", "difference")])
    for through_json, through_bytes, expected in zip(*results, (a + b, a - b)):
        assert through_json.tobytes() == through_bytes.tobytes() == expected.tobytes()


def test_gzip(client):
    a = np.zeros((2, 3), np.float32)
    for request in (None, "gzip", "deflate"):
        for response in (None, "gzip"):
            result = client.infer("add", [tensor("a", a), tensor("b", a)],
                                  request_compression_algorithm=request,
                                  response_compression_algorithm=response)
            assert result.as_numpy("sum").tobytes() == a.tobytes()


def test_64_mib(client):
    x = np.arange(4096 * 4096, dtype=np.float32).reshape(4096, 4096)
    for response in (None, "gzip"):
        result = client.infer("negate", [tensor("x", x)], response_compression_algorithm=response)
        assert result.as_numpy("y").tobytes() == (-x).tobytes()


def test_rows(client):
    random = np.random.default_rng(1)
    w = random.standard_normal((64, 32)).astype(np.float32)
    x = random.standard_normal((8, 64)).astype(np.float32)
    whole = client.infer("rows", [tensor("x", x), tensor("w", w)]).as_numpy("y")
    # At once, so that they share runs.
    pending = [client.async_infer("rows", [tensor("x", x[i:i + 1]), tensor("w", w)]) for i in range(8)]
    rows = np.concatenate([one.get_result().as_numpy("y") for one in pending])
    assert rows.tobytes() == whole.tobytes()


def test_errors(client):
    a = np.zeros((2, 3), np.float32)
    expect_error(404, "nobody", lambda: client.infer("nobody", [tensor("a", a)]))
    expect_error(400, "no input 'b'", lambda: client.infer("add", [tensor("a", a)]))
    expect_error(400, "FP64", lambda: client.infer(
        "add", [tensor("a", a.astype(np.float64), "FP64"), tensor("b", a)]))
    expect_error(400, "FP32[3,2]", lambda: client.infer(
        "add", [tensor("a", a.reshape(3, 2)), tensor("b", a)]))


def test_repository_and_statistics(client):
    client.unload_model("add")
    assert not client.is_model_ready("add")
    client.load_model("add")
    assert client.is_model_ready("add")
    before = client.get_inference_statistics("rows")["model_stats"][0]["inference_stats"]["success"]["count"]
    test_rows(client)
    after = client.get_inference_statistics("rows")["model_stats"][0]["inference_stats"]["success"]["count"]
    assert after - before == 9, (before, after)


def main():
    client = triton.InferenceServerClient(sys.argv[1], concurrency=8, network_timeout=120.0)
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test(client)
            print(f"tritonclient: {name} holds")


if __name__ == "__main__":
    main()
