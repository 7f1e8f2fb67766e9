"""Golden values of single operators: ragged shapes, outputs and gradients.

An input is random_values(1, "op/input", shape, scale), named as the test
names it; scales are powers of two, so that f32 holds the inputs exactly.
"""
import numpy as np
import torch
import torch.nn.functional as F

import layers
from container import random_bits, random_values, stream_of

SEED = 1


class Op:
    """Inputs of one operator and what becomes of them."""

    def __init__(self, writer, name):
        self.writer, self.name, self.leaves = writer, name, {}

    def input(self, what, *shape, scale=1.0, offset=0.0, grad=True):
        x = random_values(SEED, f"{self.name}/{what}", shape, scale, offset)
        if grad:
            self.leaves[what] = x.requires_grad_()
        return x

    def put(self, what, x):
        self.writer.put(f"{self.name}/{what}", x)

    def backward(self, **outputs):
        """Stores outputs, and the gradients of sum <d output, output> with
        random d outputs (finite parts only)."""
        loss = 0
        for what, y in outputs.items():
            self.put(what, y)
            dy = self.input("d" + what, *y.shape, grad=False)
            loss = loss + (dy * y.masked_fill(y.isinf(), 0)).sum()
        loss.backward()
        for what, x in self.leaves.items():
            self.put("d" + what, x.grad)


def norms(w):
    for name, centred in (("rms_norm", True), ("rms_norm_plain", False)):
        op = Op(w, name)
        x = op.input("x", 5, 48)
        op.backward(y=layers.rms_norm(x, op.input("w", 48, grad=False),
                                      centred))
    op = Op(w, "gated_norm")
    o, z = op.input("o", 6, 16), op.input("z", 6, 16, scale=4)
    n = layers.rms_norm(o, op.input("w", 16, grad=False), False)
    op.backward(y=n * F.silu(z))
    op = Op(w, "l2_norm")
    op.backward(y=layers.l2_norm(op.input("x", 7, 16)))


def linear(w):
    op = Op(w, "linear")
    x, weight = op.input("x", 9, 24), op.input("w", 40, 24, grad=False)
    a, b = op.input("a", 4, 24), op.input("b", 40, 4)
    op.backward(y=x @ weight.T + 8 * (x @ a.T) @ b.T)


def rotary(w):
    op = Op(w, "rotary")
    x = op.input("x", 6, 3, 16)
    pos = torch.tensor([0., 1, 5, 1000, 65537, 100000])
    op.backward(y=layers.rotary(x, pos, 4, 1e7))


def gates(w):
    op = Op(w, "sigmoid_gate")
    o, gate = op.input("o", 5, 20), op.input("gate", 5, 20, scale=8)
    op.backward(out=o * torch.sigmoid(gate))
    op = Op(w, "silu_gate")
    a, z = op.input("a", 5, 20), op.input("z", 5, 20, scale=8)
    op.backward(out=a * F.silu(z))
    op = Op(w, "swiglu")
    gu, weight = op.input("gu", 5, 14, scale=4), op.input("weight", 5)
    gate, up = gu.chunk(2, -1)
    op.backward(out=layers.swiglu(gate, up) * weight[:, None])
    op = Op(w, "row_gate")
    x, logit = op.input("x", 5, 14), op.input("logit", 5, scale=4)
    op.backward(out=x * torch.sigmoid(logit)[:, None])
    op = Op(w, "gdn_gates")
    a, b = op.input("a", 9, 3, scale=32), op.input("b", 9, 3, scale=4)
    a_log = op.input("a_log", 3, grad=False)
    dt_bias = op.input("dt_bias", 3, grad=False)
    op.backward(g=-torch.exp(a_log) * F.softplus(a + dt_bias, threshold=20),
                beta=torch.sigmoid(b))


def packed_mask(lengths):
    return torch.block_diag(*[torch.ones(n, n).tril() for n in lengths]) > 0


def attention_op(w, name, heads, kv, d, mask):
    op = Op(w, name)
    rows, keys = mask.shape
    q, k = op.input("q", rows, heads, d), op.input("k", keys, kv, d)
    v = op.input("v", keys, kv, d)
    out, lse = layers.attention(q, k, v, mask, d ** -0.5)
    op.backward(out=out, lse=lse)


def attention(w):
    attention_op(w, "attention", 4, 2, 8, packed_mask([1, 70, 300]))
    # a parent of 40 rows with children of 30 and 25, two rows of nobody
    tree = torch.zeros(97, 97, dtype=bool)
    tree[:95, :95] = packed_mask([40, 30, 25])
    tree[40:95, :40] = True
    attention_op(w, "attention_tree", 3, 1, 16, tree)


def merge(w):
    """Two stages; each query head has its own keys. The second sees rows
    that the first does not, and the other way round."""
    op = Op(w, "merge")
    o1, o2 = op.input("o1", 6, 2, 8), op.input("o2", 6, 2, 8)
    l1, l2 = op.input("l1", 6, 2, scale=4), op.input("l2", 6, 2, scale=4)
    lse = torch.logaddexp(l1, l2)
    out = (torch.exp(l1 - lse)[..., None] * o1
           + torch.exp(l2 - lse)[..., None] * o2)
    op.backward(out=out, lse=lse)


def conv(w):
    """Pieces of 1, 2, 3 and 9 rows; the second and the last share a halo."""
    op = Op(w, "conv")
    weight = op.input("w", 12, 4, grad=False)
    m, halo = op.input("x", 15, 12), op.input("halo", 3, 12)
    rows = torch.cat([m, halo])
    prev = [-1, 17, 1, -1, 3, 4, 17] + list(range(6, 14)) + [-1, 15, 16]
    op.backward(y=layers.conv_silu(rows, weight, torch.tensor(prev))[:15])


def delta(w):
    """Pieces of 1, 63, 64, 65 and 130 rows; the fourth and the fifth start
    from one given state."""
    op = Op(w, "delta")
    rows, heads, kd, vd = 323, 2, 16, 8
    q = op.input("q", rows, heads, kd, scale=0.25)
    k = op.input("k", rows, heads, kd, scale=0.25)
    v = op.input("v", rows, heads, vd)
    g = op.input("g", rows, heads, scale=0.25, offset=-0.25)
    beta = op.input("beta", rows, heads, scale=0.5, offset=0.5)
    s0 = op.input("s0", heads, kd, vd)
    first, segments = 0, []
    for n in (1, 63, 64, 65, 130):
        segments.append((first, n, -1))
        first += n
    o, last = layers.delta_rule(q * 0.25, k, v, g, beta, segments,
                                {3: s0, 4: s0})
    op.backward(o=o, s=torch.stack(last))


def router(w):
    for name, norm in (("router", True), ("router_plain", False)):
        op = Op(w, name)
        logits = op.input("logits", 11, 8, scale=2)
        scores, idx, weight = layers.route(logits, 2, norm)
        op.put("scores", scores)
        op.put("idx", idx)
        op.backward(weight=weight)


def moe(w):
    """Router, routed experts with adapters, as one."""
    op = Op(w, "moe")
    h, e, f, r = 16, 8, 8, 2
    n, gate = op.input("n", 13, h), op.input("gate", e, h, grad=False)
    up = op.input("up", e, 2 * f, h, grad=False)
    down = op.input("down", e, h, f, grad=False)
    adapters = [op.input("up_a", e, h, r), op.input("up_b", e, r, 2 * f),
                op.input("down_a", e, f, r), op.input("down_b", e, r, h)]
    _, idx, weight = layers.route(n @ gate.T, 2)
    op.put("idx", idx)
    op.backward(y=layers.experts(n, idx, weight, [up, down] + adapters, 0.5))


def cross_entropy(w):
    op = Op(w, "cross_entropy")
    logits = op.input("logits", 7, 1000, scale=8)
    weight = op.input("weight", 7, scale=0.5, offset=0.5, grad=False)
    target = torch.tensor([3, 999, -1, 0, 512, -1, 511])
    used = target >= 0
    lp = torch.log_softmax(logits, -1).gather(1, target.clamp(0)[:, None])
    loss = -(weight * lp[:, 0])[used].sum()
    op.put("loss", loss)
    loss.backward()
    op.put("dlogits", logits.grad)


def adam(w):
    op = Op(w, "adam")
    p = op.input("p", 3, 7)
    opt = torch.optim.Adam([p], lr=0.01, betas=(0.9, 0.99), eps=1e-8)
    for step in range(1, 4):
        p.grad = op.input(f"g{step}", 3, 7, grad=False)
        opt.step()
    op.put("result", p)


def generator(w):
    bits = random_bits(7, stream_of("generator"), 5)
    w.put("generator/bits", bits.view(np.int64))
    w.put("generator/values", random_values(7, "generator", (5,), 3, 0.1))


def write(w):
    for part in (norms, linear, rotary, gates, attention, merge, conv, delta,
                 router, moe, cross_entropy, adam, generator):
        part(w)
