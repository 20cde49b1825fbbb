# SPDX-License-Identifier: Apache-2.0
"""Graphs of ATen operations as programs: torchax says what each operation is in JAX, and JAX writes
the program."""

import functools
import operator

import jax
import torch
import torch.fx
from torch._decomp import core_aten_decompositions

from . import torchax_rules
from .jax_programs import export
from .torch_rules import RULES

# Drawn by PyTorch before a run, from its own generator, and passed to the program.
_DRAWS = {
    torch.ops.aten.rand.default,
    torch.ops.aten.randn.default,
    torch.ops.aten.randint.default,
    torch.ops.aten.randint.low,
    torch.ops.aten.randperm.default,
}


@functools.lru_cache(maxsize=None)
def decompositions() -> dict:
    """What operations are taken apart into before they are looked up."""
    known = {**core_aten_decompositions(), **torchax_rules.DECOMPOSITIONS}
    return {overload: rule for overload, rule in known.items() if overload not in RULES}


class GraphProgram:
    """The program of one graph for arguments of given shapes.

    `artifact`: what `Executable` takes. A call goes `given`, `parameters`, the run, `outputs`.
    Numbers among the arguments (sizes) are constants of the program. What the graph returns as it
    was given is returned so, without passing through the program.
    """

    def __init__(self, graph: torch.fx.GraphModule, arguments):
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._constants = {
            node: operator.attrgetter(node.target)(graph)
            for node in graph.graph.nodes
            if node.op == "get_attr"
        }
        self._draws = [node for node in graph.graph.nodes if node.target in _DRAWS]
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        self._outputs = list(output.args[0])
        # What of the outputs the program gives: each once, tensors alone.
        self._results = []
        self._numbers = {}
        with torch.random.fork_rng(devices=[]):  # what is drawn here is for its shapes alone
            given = self.given(arguments)
        tensors = [node for node, value in given.items() if isinstance(value, torch.Tensor)]

        def run(*arrays):
            environment = {**given, **dict(zip(tensors, arrays))}
            values = _Interpreter(graph).run(initial_env=environment, enable_io_processing=False)
            results = {}
            for node, value in zip(self._outputs, values):
                if not isinstance(node, torch.fx.Node) or node in given:
                    continue
                if isinstance(value, jax.Array):
                    results[node] = _as_recorded(node, value)
                else:
                    self._numbers[node] = value
            self._results = list(results)
            return list(results.values())

        shapes = [
            jax.ShapeDtypeStruct(tuple(tensor.shape), torchax_rules.t2j_dtype(tensor.dtype))
            for tensor in self.parameters(given)
        ]
        with jax.enable_x64(True):  # ATen's integers have 64 bits
            self.artifact = export(jax.jit(run, keep_unused=True), *shapes).mlir_module_serialized

    def given(self, arguments) -> dict:
        """What a call of the graph begins with, by node: arguments, constants, and random numbers
        drawn now."""
        given = {**dict(zip(self._placeholders, arguments)), **self._constants}
        return {**given, **{node: _draw(node, given) for node in self._draws}}

    def parameters(self, given: dict) -> list:
        """The tensors that the program takes, in order."""
        return [value for value in given.values() if isinstance(value, torch.Tensor)]

    def outputs(self, given: dict, results) -> list:
        """What the graph returns: of its program's results, what was given, numbers, None."""
        values = {**given, **self._numbers, **dict(zip(self._results, results))}
        return [values[node] if isinstance(node, torch.fx.Node) else node for node in self._outputs]


def _draw(node, given):
    def value_of(size):
        if size not in given:
            raise NotImplementedError(f"operation {node.target} (its size {size} is computed)")
        return given[size]

    arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), value_of)
    return node.target(*arguments, **named)


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph of ATen operations on JAX's arrays."""

    def __init__(self, graph):
        super().__init__(graph, garbage_collect_values=False)

    def call_function(self, target, args, kwargs):
        if not isinstance(target, torch._ops.OpOverload):
            return super().call_function(target, args, kwargs)
        return _rule_of(target)(*args, **kwargs)


def _rule_of(target):
    rule = RULES.get(target)
    if rule is not None:
        return rule
    found = torchax_rules.find(target)
    if found is None or not found.is_jax_function:
        raise NotImplementedError(f"operation {target} (torchax has no JAX function for it)")
    if found.needs_env:
        raise NotImplementedError(
            f"operation {target} (its random numbers are not drawn in advance)"
        )
    return found.func


def _as_recorded(node, value):
    """With the dtype that PyTorch gives it; a shape of another size is an error of a rule."""
    recorded = node.meta.get("val")
    if recorded is None:
        return value
    if len(recorded.shape) != value.ndim:
        raise RuntimeError(f"{node}: {node.target} gave {value.shape} for {recorded.shape}")
    return value.astype(torchax_rules.t2j_dtype(recorded.dtype))
