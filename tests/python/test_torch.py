# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(backend="plimsoll")` against eager PyTorch: values, gradients, limits."""

import copy
import gc

import pytest

import plimsoll

torch = pytest.importorskip("torch")
pytest.importorskip("jax")
from torch_blocks import BLOCKS  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    gc.collect()


def compiled(module, **options):
    return torch.compile(module, backend="plimsoll", fullgraph=True, **options)


def values_of(module, inputs, run=None, train=True):
    """The result of one call, the gradients of what floats by a fixed weighting of it, and the
    buffers after it, by name."""
    module.train(train)
    inputs = [i.clone().requires_grad_(i.is_floating_point()) for i in inputs]
    result = (module if run is None else run)(*inputs)
    weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64)
    (result * weights.to(result.dtype).reshape(result.shape)).sum().backward()
    values = {"result": result.detach()}
    values.update({f"input {i}": x.grad for i, x in enumerate(inputs) if x.requires_grad})
    values.update({name: p.grad for name, p in module.named_parameters() if p.grad is not None})
    values.update({name: b.clone() for name, b in module.named_buffers()})
    return values


def in_double(module, inputs):
    return module.double(), [i.double() if i.is_floating_point() else i for i in inputs]


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", BLOCKS)
def test_block_is_as_exact_as_eager(name, train):
    """Result, gradients and buffers: no further from the values in f64 than 4 times what eager
    PyTorch's are, or than 2e-6 of the largest element."""
    module, inputs = BLOCKS[name]()
    exact = values_of(*in_double(copy.deepcopy(module), inputs), train=train)
    eager = values_of(copy.deepcopy(module), inputs, train=train)
    module = copy.deepcopy(module)
    ours = values_of(module, inputs, compiled(module), train=train)
    assert ours.keys() == eager.keys() == exact.keys()
    for key, expected in exact.items():
        if not expected.is_floating_point():
            assert torch.equal(ours[key], expected), key
            continue
        assert ours[key].dtype == eager[key].dtype and ours[key].shape == eager[key].shape, key
        scale = expected.abs().max()
        allowed = 4 * (eager[key] - expected).abs().max() + 2e-6 * scale
        assert (ours[key] - expected).abs().max() <= allowed, key


@pytest.mark.parametrize("name", ["basic_block", "encoder_layer"])
def test_inference_without_gradients(name):
    module, inputs = BLOCKS[name]()
    module.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)


def test_the_backend_is_listed():
    assert "plimsoll" in torch._dynamo.list_backends(exclude_tags=None)


def test_trains_as_eager_does():
    module, inputs = BLOCKS["gpt_with_loss"]()
    losses = {}
    for name in ("eager", "plimsoll"):
        copied = copy.deepcopy(module)
        run = copied if name == "eager" else compiled(copied)
        optimizer = torch.optim.AdamW(copied.parameters(), lr=1e-2)
        losses[name] = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = run(*inputs)
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    torch.testing.assert_close(losses["plimsoll"], losses["eager"], rtol=1e-4, atol=0)
    assert losses["plimsoll"][-1] < losses["plimsoll"][0] / 2


def deep_mlp():
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(*layers), [torch.randn(512, 64)]


def test_same_bits_under_a_limit_of_each_graph():
    module, inputs = deep_mlp()
    free = values_of(copied := copy.deepcopy(module), inputs, compiled(copied))
    torch._dynamo.reset()
    limited_module = copy.deepcopy(module)
    limited = compiled(limited_module, options={"memory_limit": "100%peak"})
    tight = values_of(limited_module, inputs, limited)
    for key, value in free.items():
        assert torch.equal(value, tight[key]), key


def test_a_limit_below_the_floor_is_an_error_with_the_floor():
    module, inputs = deep_mlp()
    with pytest.raises(plimsoll.Error) as caught:
        compiled(module, options={"memory_limit": 10_000})(*inputs)
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    floor = caught.value.floor_bytes
    assert floor > inputs[0].nbytes
    torch._dynamo.reset()
    with torch.no_grad():
        compiled(module, options={"memory_limit": floor})(*inputs)
    with pytest.raises(Exception, match="memory_limits"):
        compiled(nn.Linear(2, 2), options={"memory_limits": 1})(torch.ones(1, 2))


def test_what_is_saved_for_backward_counts_once():
    context = plimsoll.default_context()
    module, inputs = deep_mlp()
    run = compiled(module)
    run(*inputs).sum().backward()
    module.zero_grad()  # gradients are results of the backward graph
    gc.collect()
    assert context.memory()["used_bytes"] == 0
    result = run(*inputs)
    saved = context.memory()["used_bytes"]
    assert saved >= 6 * result.nbytes
    context.reset_peak()
    result.sum().backward()
    weights = sum(p.nbytes for p in module.parameters())
    assert context.memory()["peak_bytes"] < 1.5 * saved + 4 * weights
    module.zero_grad()
    del result
    gc.collect()
    assert context.memory()["used_bytes"] == 0


def test_new_shapes_compile_anew():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    run = compiled(module)
    for batch in (1, 2, 3, 5, 2):
        x = torch.randn(batch, 8)
        torch.testing.assert_close(run(x), module(x))
        assert run(x).shape == (batch, 3)


def test_inputs_that_are_changed_in_place():
    def step(x, y):
        x.add_(y)
        return x * 2

    x, y = torch.ones(4), torch.arange(4.0)
    result = compiled(step)(x, y)
    assert x.tolist() == [1, 2, 3, 4] and result.tolist() == [2, 4, 6, 8]


def test_views_and_transposed_inputs():
    x = torch.randn(6, 8)
    for view in (x.T, x[::2, 1:], x.expand(3, 6, 8)):
        torch.testing.assert_close(compiled(lambda v: v.sin() + 1)(view), view.sin() + 1)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32", "bool"])
def test_dtypes(dtype):
    x = torch.arange(-4, 4).to(getattr(torch, dtype))
    y = x.clone().roll(1)
    run = lambda a, b: (torch.where(a > b, a, b), (a == b).sum(), a.cumsum(0))  # noqa: E731
    for ours, eager in zip(compiled(run)(x, y), run(x, y)):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager)


def test_random_numbers_are_pytorchs():
    dropout = compiled(nn.Dropout(0.25).train())
    x = torch.ones(10_000)
    torch.manual_seed(5)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), first) and not torch.equal(first, second)
    kept = first != 0
    assert torch.equal(first[kept], torch.full_like(first[kept], 1 / 0.75))
    assert abs(kept.float().mean() - 0.75) < 0.02


def test_unknown_operations_are_named():
    with pytest.raises(NotImplementedError, match="aten.geqrf"):
        compiled(lambda x: torch.geqrf(x)[0])(torch.eye(3))
