# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(model, backend="plimsoll")`.

Dynamo cuts a model into graphs, and AOTAutograd each of them into a forward and a backward one; every
such graph becomes one program, run under the limit by itself. `options={"memory_limit": ...}` sets
the limit of each graph, arguments and results included, as `Executable` takes it; the whole process
has that of `plimsoll.default_context()`.
"""

import threading
import weakref

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.nn.attention import SDPBackend, sdpa_kernel

from .context import default_context
from .executable import Executable
from .torch_programs import GraphProgram, decompositions

_OPTIONS = {"memory_limit"}


def compile_graph(graph, example_inputs, *, options=None):
    """What `torch.compile` calls for each graph. options: {"memory_limit": bytes or text}. Compiles
    at the first call with arguments of new shapes."""
    options = dict(options or {})
    unknown = set(options) - _OPTIONS
    if unknown:
        raise ValueError(f"options: {sorted(unknown)} (known: {sorted(_OPTIONS)})")

    def compiler(graph, example_inputs):
        return make_boxed_func(CompiledGraph(graph, options.get("memory_limit")))

    aot = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(),
        keep_inference_input_mutations=False,
    )
    # Attention in plain operations, which the library makes one kernel of, forward and backward.
    with sdpa_kernel(SDPBackend.MATH):
        return aot(graph, example_inputs)


class CompiledGraph:
    """A graph of functional ATen operations. One executable for each set of shapes. Any thread."""

    def __init__(self, graph, memory_limit):
        self._graph = graph
        self._memory_limit = memory_limit
        self._compiled = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments):
        arguments = [
            argument.detach() if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        program, executable = self._compile(arguments)
        given = program.given(arguments)
        parameters = list(program.parameters(given))
        on_host = all(tensor.device.type == "cpu" for tensor in parameters)
        results = executable.run(*(_argument(tensor) for tensor in parameters))
        return program.outputs(given, [_tensor(result, on_host) for result in results])

    def _compile(self, arguments):
        key = tuple(
            (
                (argument.dtype, tuple(argument.shape))
                if isinstance(argument, torch.Tensor)
                else argument
            )
            for argument in arguments
        )
        with self._lock:
            if key not in self._compiled:
                program = GraphProgram(self._graph, arguments)
                self._compiled[key] = program, Executable(
                    default_context(),
                    program.artifact,
                    name="torch graph",
                    memory_limit=self._memory_limit,
                )
            return self._compiled[key]


# Results of runs that tensors look at, by address.
_seen = weakref.WeakValueDictionary()


def _tensor(buffer, on_host: bool):
    """A tensor that looks at a buffer and keeps it; of a GPU's, where the arguments are on the host, a
    copy there."""
    if on_host and not buffer.context.is_host_memory:
        return torch.from_dlpack(buffer.__dlpack__(dl_device=(1, 0)))
    tensor = torch.from_dlpack(buffer)
    if tensor.numel() > 0:
        _seen[tensor.data_ptr()] = buffer
    return tensor


def _argument(tensor: torch.Tensor):
    """What `Executable.run` is given: where a tensor is the result of a run, as what a forward graph
    saves for its backward graph, that buffer, so that it counts once."""
    own = default_context().device
    if str(tensor.device) not in ("cpu", own):
        raise ValueError(
            f"a tensor on {tensor.device} (backend plimsoll takes those of the CPU and of {own})"
        )
    buffer = _seen.get(tensor.data_ptr())
    if (
        buffer is not None
        and tensor.is_contiguous()
        and buffer.shape == tuple(tensor.shape)
        and buffer.nbytes == tensor.nbytes
        and not tensor.is_conj()
        and not tensor.is_neg()
    ):
        return buffer
    return tensor.resolve_conj().resolve_neg()
