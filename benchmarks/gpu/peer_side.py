# SPDX-License-Identifier: Apache-2.0
"""A peer of peers.py in a process of its own: `peer_side.py SIDE SIZES`, SIZES a JSON object.

SIDE: torch (eager), torch-compiled, torch-budget (compiled for any batch, activation_memory_budget of 0.5), jax. f32 without TF32. The
first line on standard output is {"ready": version} once the step has run; then one request a line on standard input, one JSON object a
line on standard output:
  steps COUNT               -> {"step_seconds": median, "peak_bytes": arrays at most, "held_bytes": what the allocator took}
  rows SECONDS              -> {"rows": [{"name", "dtype", "array_bytes", "seconds"}]}, of torch
  batch LIMIT HOW SECONDS   -> {"batch", "step_seconds", "samples_per_second", "tried"}, of torch; HOW: plain or checkpointed
"""

import json
import statistics
import sys
import time

import peer_network

RATE = 1e-3


class JaxStep:
    def __init__(self, sizes):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_default_matmul_precision", "highest")
        loss_of = peer_network.jax_loss(sizes)

        def step(p, m, v, count, tokens, labels):
            loss, grads = jax.value_and_grad(loss_of)(p, tokens, labels)
            count = count + 1
            m = [0.9 * a + 0.1 * g for a, g in zip(m, grads)]
            v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads)]
            rate, scale = RATE / (1 - 0.9**count), 1 / (1 - 0.999**count)
            p = [a - rate * b / (jnp.sqrt(c * scale) + 1e-8) for a, b, c in zip(p, m, v)]
            return p, m, v, count, loss

        self.jax = jax
        self.device = jax.devices()[0]
        p = [jnp.asarray(a) for a in peer_network.parameters(sizes)]
        self.state = [p, [jnp.zeros_like(a) for a in p], [jnp.zeros_like(a) for a in p], jnp.float32(0)]
        self.data = [jnp.asarray(a) for a in peer_network.data(sizes)]
        self.step = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        self.version = "jax " + jax.__version__

    def run(self):
        *self.state, loss = self.step(*self.state, *self.data)
        self.jax.block_until_ready(loss)
        self.jax.block_until_ready(self.state)

    def bytes(self):
        peak = (self.device.memory_stats() or {}).get("peak_bytes_in_use")
        return {"peak_bytes": peak, "held_bytes": peak}


class TorchStep:
    def __init__(self, sizes, side):
        import torch
        import torch._functorch.config

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.sizes = sizes
        self.side = side
        self.version = "torch " + torch.__version__
        self.parameters = [torch.from_numpy(a).to(self.device).requires_grad_() for a in peer_network.parameters(sizes)]
        self.optimizer = torch.optim.Adam(self.parameters, lr=RATE, fused=True)
        self.take(sizes["batch"], False)

    def take(self, batch, checkpointed):
        torch = self.torch
        sizes = {**self.sizes, "batch": batch}
        self.data = [torch.from_numpy(a).to(self.device).long() for a in peer_network.data(sizes)]
        if self.side == "torch-budget":
            torch._functorch.config.activation_memory_budget = 0.5
            for array in self.data:
                torch._dynamo.mark_dynamic(array, 0)
        if self.side == "torch" or not hasattr(self, "loss_of"):
            loss = peer_network.torch_loss(sizes, checkpointed)
            self.loss_of = loss if self.side == "torch" else torch.compile(loss, dynamic=None)

    def synchronize(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def run(self):
        self.loss_of(self.parameters, *self.data).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.synchronize()

    def bytes(self):
        if self.device != "cuda":
            return {"peak_bytes": None, "held_bytes": None}
        memory = self.torch.cuda
        return {"peak_bytes": memory.max_memory_allocated(), "held_bytes": memory.max_memory_reserved()}

    def fresh(self):
        self.optimizer.zero_grad(set_to_none=True)
        if self.device == "cuda":
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()

    def seconds_of_batch(self, batch, checkpointed):
        """Of the third step; None where memory is short."""
        self.fresh()
        try:
            self.take(batch, checkpointed)
            for _ in range(2):
                self.run()
            start = time.perf_counter()
            self.run()
            return time.perf_counter() - start
        except self.torch.OutOfMemoryError:
            self.data = None
            self.fresh()
            return None

    def largest_batch(self, limit, how, seconds):
        torch = self.torch
        start = time.perf_counter()
        checkpointed = how == "checkpointed"
        tried = []

        def attempt(batch):
            taken = self.seconds_of_batch(batch, checkpointed)
            tried.append(batch)
            return taken

        # Bytes grow evenly with the batch, about: two batches say where to begin.
        held = []
        for batch in (8, 16):
            attempt(batch)
            held.append(self.bytes()["held_bytes"])
        slope = max((held[1] - held[0]) / 8, 1)
        guess = max(int(16 + (limit - held[1]) / slope), 1)
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
        fits, fails, best = 0, None, None
        while time.perf_counter() - start < seconds and (fails is None or fails - fits > max(1, fits // 50)):
            taken = attempt(guess)
            if taken is None:
                fails = guess
            else:
                fits, best = guess, taken
            if fits == 0:
                guess = max(guess * 9 // 10, 1) if fails > 1 else 1
                if fails == 1:
                    break
            elif fails is None:
                guess = guess * 21 // 20 + 1
            else:
                guess = (fits + fails) // 2
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.fresh()
        found = {"batch": fits, "step_seconds": best, "tried": tried}
        if best:
            found["samples_per_second"] = fits / best
        return found

    def rows(self, seconds):
        return {"rows": torch_rows(self.torch, seconds)}


def torch_rows(torch, seconds):
    """gpu_bandwidth's cases as PyTorch has them, eager, in CUDA graphs: every launch finds its arrays outside the cache."""
    import torch.nn.functional as F

    start = time.perf_counter()
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    found = []

    def draw(*shape, dtype):
        return torch.rand(shape, device="cuda", dtype=torch.float32).add_(0.5).to(dtype)

    def case(name, dtype, array_bytes, moved, make, run):
        if time.perf_counter() - start > seconds:
            return
        sets = max(-(-4 * cache // moved), 1)
        count = int(min(max(1e-3 * 3e12 / moved, min(sets, 512), 1), 512))
        inputs = [make() for _ in range(min(sets, count))]
        run(*inputs[0])  # outside of the graph first: libraries make what they need
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        kept = []
        with torch.cuda.graph(graph):
            for i in range(count):
                kept.append(run(*inputs[i % len(inputs)]))
        times = []
        for _ in range(5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / count)
        row = {"name": name, "dtype": str(dtype), "array_bytes": array_bytes, "seconds": statistics.median(times)}
        found.append(row)
        del graph, kept, inputs
        torch.cuda.empty_cache()

    for size in (256 << 20, 4 << 20):
        for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            item = dtype.itemsize
            n = size // item
            rows = n // 1024
            side = int(n**0.5) // 64 * 64

            def add(name, moved, make, run):
                case(name, dtype, size, moved, make, run)
                if found and found[-1]["dtype"] == str(dtype):
                    found[-1]["dtype"] = word

            flat = lambda: (draw(n, dtype=dtype),)
            matrix = lambda: (draw(rows, 1024, dtype=dtype),)
            add("copy", 2 * size, flat, lambda x: x.clone())
            add("add", 3 * size, lambda: (draw(n, dtype=dtype), draw(n, dtype=dtype)), lambda x, y: x + y)
            if word == "f32":
                add("gelu_of_erf", 2 * size, flat, lambda x: F.gelu(x))
            add("gelu_of_tanh", 2 * size, flat, lambda x: F.gelu(x, approximate="tanh"))
            add("sum_rows", size, matrix, lambda x: x.sum(-1))
            add("sum_columns", size, matrix, lambda x: x.sum(0))
            add("sum_all", size, flat, lambda x: x.sum())
            add("softmax_of_64", 2 * size, lambda: (draw(n // 64, 64, dtype=dtype),), lambda x: torch.softmax(x, -1))
            add("softmax_of_1024", 2 * size, matrix, lambda x: torch.softmax(x, -1))
            add(
                "softmax_of_16384",
                2 * size,
                lambda: (draw(n // 16384, 16384, dtype=dtype),),
                lambda x: torch.softmax(x, -1),
            )
            scale = draw(1024, dtype=dtype)
            add("layer_norm_of_1024", 2 * size, matrix, lambda x: F.layer_norm(x, (1024,), scale, scale))
            add(
                "heads_first",
                2 * size,
                lambda: (draw(n // 65536, 64, 16, 64, dtype=dtype),),
                lambda x: x.transpose(1, 2).contiguous(),
            )
            add("transpose", 2 * size, lambda: (draw(side, side, dtype=dtype),), lambda x: x.t().contiguous())
            if word == "f32":
                count = torch.ones((), device="cuda")

                def adam(p, g, m, v):
                    torch._fused_adam_(
                        [p],
                        [g],
                        [m],
                        [v],
                        [],
                        [count],
                        lr=RATE,
                        beta1=0.9,
                        beta2=0.999,
                        weight_decay=0.0,
                        eps=1e-8,
                        amsgrad=False,
                        maximize=False,
                    )

                add("adam", 7 * size, lambda: tuple(draw(n, dtype=dtype) for _ in range(4)), adam)
    return found


def main():
    side, text = sys.argv[1:]
    sizes = json.loads(text)

    def answer(fields):
        print(json.dumps(fields), flush=True)

    try:
        step = JaxStep(sizes) if side == "jax" else TorchStep(sizes, side)
        for _ in range(3):
            step.run()
        answer({"ready": step.version})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "steps":
                times = []
                for _ in range(int(words[1])):
                    start = time.perf_counter()
                    step.run()
                    times.append(time.perf_counter() - start)
                answer({"step_seconds": statistics.median(times), **step.bytes()})
            elif words[0] == "rows":
                answer(step.rows(float(words[1])))
            elif words[0] == "batch":
                answer(step.largest_batch(int(words[1]), words[2], float(words[3])))
            else:
                answer({"error": f"'{words[0]}': no request (steps, rows, batch)"})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
