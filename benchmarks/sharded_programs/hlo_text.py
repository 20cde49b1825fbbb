# SPDX-License-Identifier: Apache-2.0
"""A reader of HLO text: `cost(text)` gives what one participant of a program pays.

A program costs its collectives, the bytes a participant receives in them, the FLOPs of products and convolutions, and
the largest array. Loops count by their rounds, ROUNDS where these are unknown; of a conditional's branches the one
counts that moves most.
"""
import math
import re

ROUNDS = 10
KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
         "collective-broadcast")
BYTES = dict(pred=1, s4=1, u4=1, s8=1, u8=1, s16=2, u16=2, f16=2, bf16=2, s32=4, u32=4, f32=4, s64=8, u64=8, f64=8,
             c64=8, c128=16)
# What a value passes through unchanged, as far as counting rounds goes.
TRANSPARENT = ("copy", "convert", "bitcast", "reshape", "broadcast", "opt-barrier", "optimization-barrier")
MIRRORED = dict(LT="GT", GT="LT", LE="GE", GE="LE")
DEEPEST = 40


def leaves(shape):
    """`(f32[2,3]{1,0}, s32[])` as [("f32", (2, 3)), ("s32", ())]."""
    found = re.findall(r"\b([a-z][a-z0-9]*)\[([^\]]*)\]", shape)
    extents = lambda text: tuple(int(one.strip().lstrip("<=")) for one in text.split(",") if one.strip())
    return [(kind, extents(text)) for kind, text in found if kind in BYTES or kind.startswith("f8")]


def leaf_bytes(kind, extents):
    return BYTES.get(kind, 1) * math.prod(extents)


def shape_bytes(shape):
    return sum(leaf_bytes(kind, extents) for kind, extents in leaves(shape))


def elements(shape):
    return math.prod(leaves(shape)[0][1])


def behind(text, start):
    """The index behind the bracket that closes the one at the start."""
    depth = 0
    quoted = False
    for at in range(start, len(text)):
        letter = text[at]
        if letter == '"':
            quoted = not quoted
        elif not quoted and letter in "([{":
            depth += 1
        elif not quoted and letter in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
    return len(text)


def split(text):
    """The parts between commas that are in no brackets."""
    parts = []
    depth = 0
    current = ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    if current.strip():
        parts.append(current)
    return [part.strip() for part in parts]


class Instruction:
    def __init__(self, name, text):
        self.name = name
        end = behind(text, 0) if text.startswith("(") else text.index(" ")
        self.shape = text[:end]
        text = text[end:].lstrip()
        start = text.index("(")
        end = behind(text, start)
        self.operation = text[:start]
        self.raw = text[start + 1:end - 1]
        self.attributes = text[end:]
        named = [] if self.operation in ("constant", "parameter") else split(self.raw)
        self.operands = [operand.split()[-1].lstrip("%") for operand in named]

    def called(self, key):
        """The computation that an attribute names."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.attributes)
        return found and found.group(1)

    def callee(self):
        return self.called("calls") or self.called("to_apply")

    def branches(self):
        found = re.search(r"branch_computations=\{([^}]*)\}", self.attributes)
        if found:
            return [name.strip().lstrip("%") for name in found.group(1).split(",")]
        return [self.called("true_computation"), self.called("false_computation")]


class Computation:
    def __init__(self):
        self.instructions = {}
        self.root = None
        self.marked = False  # whether the text says which one the root is; it is the last one otherwise

    def add(self, instruction, is_root):
        self.instructions[instruction.name] = instruction
        if is_root or not self.marked:
            self.root = instruction.name
            self.marked = self.marked or is_root


class Cost:
    """`count` collectives run, of which `static` are written; `kinds` has both the written and the bytes of each."""

    def __init__(self, static=0, count=0, moved=0, kinds=None):
        self.static = static
        self.count = count
        self.bytes = moved
        self.flops = 0
        self.unknown = 0
        self.kinds = kinds or {}
        self.largest = 0
        self.largest_shape = ""

    def see(self, largest, shape):
        if largest > self.largest:
            self.largest = largest
            self.largest_shape = shape

    def add(self, other, times=1):
        self.count += other.count * times
        self.bytes += other.bytes * times
        self.flops += other.flops * times
        self.static += other.static
        self.unknown += other.unknown
        for kind, (written, moved) in other.kinds.items():
            before = self.kinds.get(kind, (0, 0))
            self.kinds[kind] = (before[0] + written, before[1] + moved * times)
        self.see(other.largest, other.largest_shape)

    def add_branches(self, branches):
        """The worst of each: bytes and collectives of one branch, FLOPs perhaps of another."""
        for branch in branches:
            self.see(branch.largest, branch.largest_shape)
        worst = max(branches, key=lambda branch: (branch.bytes, branch.count))
        chosen = Cost(max(branch.static for branch in branches), worst.count, worst.bytes, worst.kinds)
        chosen.flops = max(branch.flops for branch in branches)
        chosen.unknown = max(branch.unknown for branch in branches)
        self.add(chosen)


class Program:
    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", "", text)
        found = re.search(r"num_partitions=(\d+)", text)
        self.participants = int(found.group(1)) if found else 1
        self.computations = {}
        self.entry = None
        self.costs = {}
        current = None
        for line in text.splitlines():
            if current is None:
                current = self.begin(line)
            elif line.startswith("}"):
                current = None
            else:
                found = re.match(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*(.*)$", line)
                if found:
                    current.add(Instruction(found.group(2), found.group(3)), bool(found.group(1)))

    def begin(self, line):
        """The computation whose head the line is, or None."""
        found = re.match(r"(ENTRY\s+)?%?([\w.\-]+)\s*(\(.*)?\{\s*$", line)
        if not found or line.startswith("HloModule") or not (found.group(1) or found.group(3)):
            return None
        self.computations[found.group(2)] = Computation()
        if found.group(1):
            self.entry = found.group(2)
        return self.computations[found.group(2)]

    def root_value(self, name, parameters, depth=0):
        return self.value(name, self.computations[name].root, parameters, depth)

    def value(self, computation, name, parameters, depth=0):
        """A value, as far as counting rounds needs it: an integer; ("tuple", values); ("element", i) of the loop's
        carry; ("step", i, by), that element and an integer; ("compare", direction, left, right); or None. The
        parameters have values, too, and "carry" stands for the loop's."""
        x = self.computations[computation].instructions.get(name)
        if x is None or depth > DEEPEST:
            return None
        operand = lambda k: self.value(computation, x.operands[k], parameters, depth + 1)
        if x.operation == "constant":
            raw = x.raw.strip()
            return int(raw) if re.fullmatch(r"-?\d+", raw) else {"true": 1, "false": 0}.get(raw)
        if x.operation == "parameter":
            return parameters.get(int(x.raw)) if parameters is not None else None
        is_mark = x.operation == "custom-call" and 'custom_call_target="Sharding"' in x.attributes
        if is_mark or x.operation in TRANSPARENT and x.operands:
            return operand(0)
        if x.operation == "tuple":
            return ("tuple", [operand(k) for k in range(len(x.operands))])
        if x.operation == "get-tuple-element":
            return element(operand(0), int(re.search(r"index=(\d+)", x.attributes).group(1)))
        if x.operation in ("add", "subtract", "multiply", "minimum", "maximum") and len(x.operands) == 2:
            return arithmetic(x.operation, operand(0), operand(1))
        if x.operation == "compare":
            return ("compare", re.search(r"direction=(\w+)", x.attributes).group(1), operand(0), operand(1))
        if x.operation in ("fusion", "call") and x.callee() in self.computations:
            passed = {k: operand(k) for k in range(len(x.operands))}
            return self.root_value(x.callee(), passed, depth + 1)
        return None

    def rounds(self, computation, loop):
        """How often a loop's body runs, or None."""
        found = re.search(r'known_trip_count"?:\{"?n"?[:=]"?(\d+)', loop.attributes)
        if found:
            return int(found.group(1))
        initial = self.value(computation, loop.operands[0], None)
        condition = self.root_value(loop.called("condition"), {0: "carry"})
        after = self.root_value(loop.called("body"), {0: "carry"})
        if not (is_a("compare", condition) and is_a("tuple", after) and is_a("tuple", initial)):
            return None
        return counted(condition, after[1], initial[1])

    def group_size(self, x):
        """How many meet in a collective, in the largest of its groups."""
        found = re.search(r"replica_groups=", x.attributes)
        if not found:
            return self.participants
        text = x.attributes[found.end():]
        if text.startswith("{"):
            groups = re.findall(r"\{([\d,\s]+)\}", text[:behind(text, 0)])
            return max((len(group.split(",")) for group in groups), default=self.participants)
        found = re.match(r"\[(\d+),(\d+)\]<=", text)
        if found:
            return int(found.group(2))
        found = re.match(r"@?[\w]*\[([^\]]*)\][^{]*?\{([^}]*)\}", text)
        if not found:
            raise ValueError("replica_groups " + text[:80])
        sizes = {axis: int(size) for axis, size in re.findall(r"'([^']+)'=(\d+)", found.group(1))}
        parts = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", found.group(2))
        return math.prod(int(part) if part else sizes[axis] for axis, part in parts)

    def collective(self, computation, x):
        """The cost of a collective, or None; one in which nothing moves is none."""
        kind = x.operation.removesuffix("-start")
        if kind not in KINDS:
            return None
        given = sum(shape_bytes(computation.instructions[operand].shape) for operand in x.operands)
        if kind == "collective-permute":
            pairs = re.search(r"source_target_pairs=(.*)", x.attributes)
            if pairs:
                text = pairs.group(1)
                pairs = re.findall(r"\{(\d+),\s*(\d+)\}", text[:behind(text, 0)])
            moves = pairs is None or any(source != target for source, target in pairs)
            return Cost(1, 1, given, {kind: (1, given)}) if moves and given else None
        size = self.group_size(x)
        if size == 1:
            return None
        share = {"all-gather": size - 1, "all-reduce": 2 * (size - 1) / size, "collective-broadcast": 1}
        moved = given * share.get(kind, (size - 1) / size)
        return Cost(1, 1, moved, {kind: (1, moved)})

    def cost(self, name=None):
        name = name or self.entry
        if name in self.costs:
            return self.costs[name]
        total = Cost()
        computation = self.computations[name]
        for x in computation.instructions.values():
            for kind, extents in leaves(x.shape):
                total.see(leaf_bytes(kind, extents), f"{kind}[{','.join(map(str, extents))}]")
            collective = self.collective(computation, x)
            if collective:
                total.add(collective)
            total.flops += flops(computation, x)
            if x.operation == "while":
                rounds = self.rounds(name, x)
                if rounds is None:
                    total.unknown += 1
                    rounds = ROUNDS
                total.add(self.cost(x.called("body")), rounds)
                total.add(self.cost(x.called("condition")), rounds + 1)
            elif x.operation == "conditional":
                total.add_branches([self.cost(branch) for branch in x.branches()])
            elif x.operation in ("call", "fusion") or x.operation.endswith("-start") and not collective:
                if x.callee() in self.computations:
                    total.add(self.cost(x.callee()))
        self.costs[name] = total
        return total


def is_a(kind, value):
    return isinstance(value, tuple) and value[0] == kind


def element(value, index):
    if value == "carry":
        return ("element", index)
    return value[1][index] if is_a("tuple", value) and index < len(value[1]) else None


def arithmetic(operation, left, right):
    if isinstance(left, int) and isinstance(right, int):
        return dict(add=left + right, subtract=left - right, multiply=left * right, minimum=min(left, right),
                    maximum=max(left, right))[operation]
    if operation == "add" and isinstance(left, int):
        left, right = right, left
    if is_a("element", left) and isinstance(right, int) and operation in ("add", "subtract"):
        return ("step", left[1], right if operation == "add" else -right)
    return None


def counted(condition, after, initial):
    """The rounds of a loop that goes on while the comparison holds, of a carry and what the body makes of it."""
    _, direction, left, right = condition

    def known(value):
        # An element that the body passes along is as it was at first.
        if is_a("element", value) and after[value[1]] == value:
            value = initial[value[1]]
        return value if isinstance(value, int) else None

    if known(left) is not None:
        left, right = right, left
        direction = MIRRORED.get(direction, direction)
    limit = known(right)
    if limit is None or not is_a("element", left):
        return None
    step, start = after[left[1]], initial[left[1]]
    if not (is_a("step", step) and step[1] == left[1] and isinstance(start, int)):
        return None
    by = step[2]
    if direction in ("LT", "LE") and by > 0:
        return max(0, -(-(limit + (direction == "LE") - start) // by))
    if direction in ("GT", "GE") and by < 0:
        return max(0, -(-(start - limit + (direction == "GE")) // -by))
    if direction == "NE" and by and (limit - start) % by == 0 and (limit - start) // by >= 0:
        return (limit - start) // by
    return None


def flops(computation, x):
    if x.operation == "dot":
        left = leaves(computation.instructions[x.operands[0]].shape)[0][1]
        found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", x.attributes)
        places = found.group(1).split(",") if found and found.group(1) else []
        return 2 * elements(x.shape) * math.prod(left[int(place)] for place in places)
    if x.operation == "convolution":
        kernel = leaves(computation.instructions[x.operands[1]].shape)[0][1]
        labels = re.search(r"dim_labels=\w+_(\w+)->", x.attributes).group(1)
        return 2 * elements(x.shape) * math.prod(kernel) // kernel[labels.index("o")]
    return 0


def cost(text):
    return Program(text).cost()
