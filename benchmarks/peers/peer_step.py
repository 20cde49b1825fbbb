# SPDX-License-Identifier: Apache-2.0
"""A training step in PyTorch or JAX in a process of its own: `peer_step.py NETWORK FRAMEWORK KEY=VALUE,...`.

One request a line on standard input, one JSON object a line on standard output:
  run COUNT -> {"seconds", "losses"}: one each per step
  settle    -> {}: what is garbage is collected, and free memory given back to the system
The first line comes unasked, once the step is compiled or ready to be: {"version", "bytes"}, where bytes are what the framework
itself says that the step needs at most (null: it does not say).
"""

import ctypes
import gc
import json
import sys
import time

import frontier_networks

RATE = 1e-3


def policy_of(name):
    """What a checkpointed block keeps beside its inputs."""
    import jax

    products = ("dot_general", "conv_general_dilated")
    return {
        "nothing": jax.checkpoint_policies.nothing_saveable,
        "products": lambda primitive, *_, **__: primitive.name in products,
    }[name]


def jax_step(network, kept=None):
    """The function, its arguments and which of them are donated. `kept`: blocks are checkpointed and keep that."""
    import jax
    import jax.numpy as jnp
    import optax

    wrap = (lambda block: jax.checkpoint(block, policy=policy_of(kept))) if kept else (lambda block: block)
    optimizer = optax.adam(RATE)

    def step(parameters, state, x, y):
        loss, grads = jax.value_and_grad(lambda p: network.loss_jax(p, x, y, wrap))(parameters)
        updates, state = optimizer.update(grads, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    parameters = [jnp.asarray(a) for a in network.parameters]
    return step, (parameters, optimizer.init(parameters), *map(jnp.asarray, network.data)), (0, 1)


class JaxStep:
    def __init__(self, network, options):
        import jax

        function, (self.parameters, self.state, *self.data), donated = jax_step(network, options.get("kept"))
        jitted = jax.jit(function, donate_argnums=donated)
        self.step = jitted.lower(self.parameters, self.state, *self.data).compile()
        memory = self.step.memory_analysis()
        self.bytes = (
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            + memory.temp_size_in_bytes
            - memory.alias_size_in_bytes
        )
        self.version = jax.__version__
        self.wait = jax.block_until_ready

    def run(self):
        self.parameters, self.state, loss = self.wait(self.step(self.parameters, self.state, *self.data))
        return float(loss)


class TorchStep:
    """Options: compiled, budget=SHARE (activation_memory_budget), checkpointed, channels_last, early (each parameter is updated
    as soon as its gradient is there, which then goes)."""

    bytes = None

    def __init__(self, network, options):
        import torch
        import torch._functorch.config
        from torch.utils.checkpoint import checkpoint

        if "budget" in options:
            torch._functorch.config.activation_memory_budget = float(options["budget"])
        layout = torch.channels_last if "channels_last" in options else torch.contiguous_format

        def tensor(array, order):
            made = torch.from_numpy(array.transpose(order) if array.ndim == 4 else array)
            made = made.long() if made.dtype == torch.int32 else made
            return made.contiguous(memory_format=layout).clone() if array.ndim == 4 else made.clone()

        x, y = (tensor(a, (0, 3, 1, 2)) for a in network.data)
        parameters = [tensor(a, (3, 2, 0, 1)).requires_grad_() for a in network.parameters]
        adam = lambda of: torch.optim.Adam(of, lr=RATE, fused=True)
        optimizers = [adam([p]) for p in parameters] if "early" in options else [adam(parameters)]

        def wrap(block):
            return lambda *arrays: checkpoint(block, *arrays, use_reentrant=False)

        arguments = (wrap,) if "checkpointed" in options else ()
        loss_of = lambda p, x, y: network.loss_torch(p, x, y, *arguments)
        if "compiled" in options:
            loss_of = torch.compile(loss_of, dynamic=False)
        if "early" in options:
            for parameter, optimizer in zip(parameters, optimizers):

                def update(parameter, optimizer=optimizer):
                    optimizer.step()
                    optimizer.zero_grad()

                parameter.register_post_accumulate_grad_hook(update)

        def run():
            loss = loss_of(parameters, x, y)
            loss.backward()
            if "early" not in options:
                optimizers[0].step()
                optimizers[0].zero_grad()
            return loss.item()

        self.run = run
        self.version = torch.__version__


def main():
    name, framework, text = sys.argv[1:]
    options = dict((word + "=").split("=")[:2] for word in text.split(",") if word)
    if framework == "jax":
        step = JaxStep(frontier_networks.network(name), options)
    else:
        step = TorchStep(frontier_networks.in_torch(name), options)
    glibc = ctypes.CDLL(None)

    def answer(**fields):
        print(json.dumps(fields), flush=True)

    answer(version=step.version, bytes=step.bytes)
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "run":
                seconds, losses = [], []
                for _ in range(int(words[1])):
                    start = time.perf_counter()
                    losses.append(step.run())
                    seconds.append(time.perf_counter() - start)
                answer(seconds=seconds, losses=losses)
            elif words[0] == "settle":
                gc.collect()
                glibc.malloc_trim(0)
                answer()
            else:
                answer(error=f"'{words[0]}': no request")
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
