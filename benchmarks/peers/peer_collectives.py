#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process of a side of collectives.py: `peer_collectives.py torch|jax MEGABYTES GRADIENTS`.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who it is.
"""

import os
import sys
import time

from collectives import gradient_sizes, serve

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def run_torch(megabytes, sizes):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    array = torch.ones(megabytes << 18)
    gradients = [torch.ones(size) for size in sizes]

    def sum_array():
        dist.all_reduce(array)

    def sum_gradients():
        bucket = torch.cat(gradients)
        dist.all_reduce(bucket)
        for gradient, part in zip(gradients, bucket.split(sizes)):
            gradient.copy_(part)

    def run(case):
        array.fill_(1)
        for gradient in gradients:
            gradient.fill_(1)
        dist.barrier()
        start = time.perf_counter()
        (sum_array if case == "array" else sum_gradients)()
        seconds = time.perf_counter() - start
        assert (array if case == "array" else gradients[-1])[0] == SIZE
        return seconds

    serve(run)


def run_jax(megabytes, sizes):
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", num_processes=SIZE, process_id=RANK
    )
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    rows = NamedSharding(mesh, PartitionSpec("ranks"))

    def given(size):
        own = np.ones((1, size), np.float32)
        return jax.make_array_from_single_device_arrays(
            (SIZE, size), rows, [jax.device_put(own, jax.local_devices()[0])]
        )

    def summed(arrays):
        return jax.tree.map(lambda x: jax.lax.psum(x, "ranks"), arrays)

    program = jax.jit(
        jax.shard_map(summed, mesh=mesh, in_specs=PartitionSpec("ranks"), out_specs=PartitionSpec())
    )
    cases = {"array": [given(megabytes << 18)], "gradients": [given(size) for size in sizes]}
    together = [given(1)]

    def run(case):
        jax.block_until_ready(program(together))
        start = time.perf_counter()
        result = jax.block_until_ready(program(cases[case]))
        seconds = time.perf_counter() - start
        assert np.asarray(result[-1].addressable_data(0)).flat[0] == SIZE
        return seconds

    serve(run)


if __name__ == "__main__":
    {"torch": run_torch, "jax": run_jax}[sys.argv[1]](int(sys.argv[2]), gradient_sizes(int(sys.argv[3])))
