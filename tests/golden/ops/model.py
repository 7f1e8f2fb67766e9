"""Golden values of one GDN layer, one attention layer and the four-layer
model of tiny-model.json: outputs, losses and the gradient of every adapter.

Weights follow the convention of src/base/random.h with seed 7; adapters have
rank 4 and alpha 32.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

import layers
from container import random_bits, random_values, stream_of

SEED, RANK, ALPHA = 7, 4, 32
SCALE = ALPHA / RANK
PREFIX = "model.language_model."
HERE = os.path.dirname(os.path.abspath(__file__))


class Model:
    def __init__(self, path):
        with open(path) as f:
            self.c = json.load(f)["text_config"]
        self.leaves = {}            # adapters by full name

    # ---- parameters ----------------------------------------------------

    def weight(self, name, *shape, scale=None, offset=0.0):
        if scale is None:
            scale = math.sqrt(3.0 / shape[-1])
        full = name if name == "lm_head.weight" else PREFIX + name
        return random_values(SEED, full, shape, scale, offset)

    def adapter(self, site, a_shape, b_shape, width):
        """A and B of a site, the same leaves at every use."""
        pair = []
        for which, shape, scale in (("A", a_shape, math.sqrt(3.0 / width)),
                                    ("B", b_shape, 0.02)):
            full = f"{PREFIX}{site}.lora_{which}.weight"
            if full not in self.leaves:
                x = random_values(SEED, full, shape, scale)
                self.leaves[full] = x.requires_grad_()
            pair.append(self.leaves[full])
        return pair

    def linear(self, x, site, out):
        width = x.shape[1]
        a, b = self.adapter(site, (RANK, width), (out, RANK), width)
        w = self.weight(site + ".weight", out, width)
        return x @ w.T + SCALE * (x @ a.T) @ b.T

    def norm(self, x, name, zero_centred=True):
        w = self.weight(name + ".weight", x.shape[-1], scale=0.1,
                        offset=0.0 if zero_centred else 1.0)
        return layers.rms_norm(x, w, zero_centred)

    # ---- mixers --------------------------------------------------------

    def attention(self, n, at, batch):
        c, t = self.c, len(n)
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = c["head_dim"]
        half = int(d * c["partial_rotary_factor"]) // 2
        theta = float(c["rope_parameters"]["rope_theta"])
        qg = self.linear(n, at + "q_proj", 2 * heads * d).view(t, heads, 2, d)
        q, gate = qg[:, :, 0], qg[:, :, 1].reshape(t, heads * d)
        k = self.linear(n, at + "k_proj", kv * d).view(t, kv, d)
        v = self.linear(n, at + "v_proj", kv * d).view(t, kv, d)
        q = self.norm(q, at + "q_norm")
        k = self.norm(k, at + "k_norm")
        q = layers.rotary(q, batch.position, half, theta)
        k = layers.rotary(k, batch.position, half, theta)
        o, _ = layers.attention(q, k, v, batch.mask, d ** -0.5)
        o = o.reshape(t, heads * d) * torch.sigmoid(gate)
        return self.linear(o, at + "o_proj", c["hidden_size"])

    def gdn(self, n, at, batch):
        c, t = self.c, len(n)
        nk, kd = c["linear_num_key_heads"], c["linear_key_head_dim"]
        nv, vd = c["linear_num_value_heads"], c["linear_value_head_dim"]
        key, value, hidden = nk * kd, nv * vd, n.shape[1]
        m = self.linear(n, at + "in_proj_qkv", 2 * key + value)
        z = self.linear(n, at + "in_proj_z", value)
        b = n @ self.weight(at + "in_proj_b.weight", nv, hidden).T
        a = n @ self.weight(at + "in_proj_a.weight", nv, hidden).T
        w = self.weight(at + "conv1d.weight", m.shape[1], 1,
                        c["linear_conv_kernel_dim"])[:, 0]
        q, k, v = layers.conv_silu(m, w, batch.prev).split(
            [key, key, value], -1)
        q = layers.l2_norm(q.view(t, nk, kd)).repeat_interleave(nv // nk, 1)
        k = layers.l2_norm(k.view(t, nk, kd)).repeat_interleave(nv // nk, 1)
        a_log = self.weight(at + "A_log", nv, scale=1.0)
        dt_bias = self.weight(at + "dt_bias", nv, scale=1.0, offset=-2.0)
        g = -torch.exp(a_log) * F.softplus(a + dt_bias)
        o, _ = layers.delta_rule(q * kd ** -0.5, k, v.view(t, nv, vd), g,
                                 torch.sigmoid(b), batch.segments)
        y = self.norm(o, at + "norm", False).reshape(t, value) * F.silu(z)
        return self.linear(y, at + "out_proj", hidden)

    # ---- MoE -----------------------------------------------------------

    def moe(self, n, at, routes):
        c, h = self.c, n.shape[1]
        e, f = c["num_experts"], c["moe_intermediate_size"]
        fs = c["shared_expert_intermediate_size"]
        logits = n @ self.weight(at + "gate.weight", e, h).T
        _, idx, w = layers.route(logits, c["num_experts_per_tok"])
        routes.append((idx, logits.detach()))
        up, down = at + "experts.gate_up_proj", at + "experts.down_proj"
        weights = [self.weight(up, e, 2 * f, h), self.weight(down, e, h, f)]
        weights += self.adapter(up, (e, h, RANK), (e, RANK, 2 * f), h)
        weights += self.adapter(down, (e, f, RANK), (e, RANK, h), f)
        routed = layers.experts(n, idx, w, weights, SCALE)
        s = at + "shared_expert."
        shared = self.linear(
            layers.swiglu(self.linear(n, s + "gate_proj", fs),
                          self.linear(n, s + "up_proj", fs)),
            s + "down_proj", h)
        tau = n @ self.weight(at + "shared_expert_gate.weight", 1, h).T
        return routed + torch.sigmoid(tau) * shared

    # ---- the whole -----------------------------------------------------

    def layer(self, x, i, batch, routes):
        at = f"layers.{i}."
        n = self.norm(x, at + "input_layernorm")
        if self.c["layer_types"][i] == "full_attention":
            x = x + self.attention(n, at + "self_attn.", batch)
        else:
            x = x + self.gdn(n, at + "linear_attn.", batch)
        n = self.norm(x, at + "post_attention_layernorm")
        return x + self.moe(n, at + "mlp.", routes)

    def forward(self, batch, routes):
        c = self.c
        vocab, h = c["vocab_size"], c["hidden_size"]
        x = self.weight("embed_tokens.weight", vocab, h, scale=1.0)[batch.ids]
        for i in range(c["num_hidden_layers"]):
            x = self.layer(x, i, batch, routes)
        return x

    def loss(self, x, batch):
        h, vocab = x.shape[1], self.c["vocab_size"]
        n = self.norm(x, "norm")
        logits = n @ self.weight("lm_head.weight", vocab, h).T
        lp = torch.log_softmax(logits, -1)
        picked = lp.gather(1, batch.target.clamp(0)[:, None])[:, 0]
        return -(batch.loss_weight * picked)[batch.target >= 0].sum()


class Batch:
    """A forest of segments (parent, rows), rows back to back. The target of
    a row is the next row of its segment; a segment's last row has none. The
    loss weight is one over the labelled rows, rounded to f32."""

    def __init__(self, name, forest, vocab):
        self.name, self.forest = name, forest
        self.segments, starts, positions, prev = [], [], [], []
        first = 0
        for parent, rows in forest:
            end = -1 if parent < 0 else sum(self.segments[parent][:2]) - 1
            start = 0 if parent < 0 else starts[parent] + forest[parent][1]
            self.segments.append((first, rows, parent))
            starts.append(start)
            positions += range(start, start + rows)
            prev += [end] + list(range(first, first + rows - 1))
            first += rows
        self.rows = first
        self.position = torch.tensor(positions, dtype=torch.float64)
        self.prev = torch.tensor(prev)
        self.mask = self.visible()
        bits = random_bits(SEED, stream_of(name + "/ids"), first)
        self.ids = torch.tensor([int(b) % vocab for b in bits])
        self.target = torch.full((first,), -1)
        for start, rows, _ in self.segments:
            self.target[start:start + rows - 1] = \
                self.ids[start + 1:start + rows]
        labelled = int((self.target >= 0).sum())
        one = torch.tensor(1 / labelled, dtype=torch.float32)
        self.loss_weight = (self.target >= 0) * one.to(torch.float64)

    def visible(self):
        mask = torch.zeros(self.rows, self.rows, dtype=bool)
        for i, (start, rows, parent) in enumerate(self.segments):
            mine = slice(start, start + rows)
            mask[mine, mine] = torch.ones(rows, rows).tril() > 0
            while parent >= 0:
                first, n, up = self.segments[parent]
                mask[mine, first:first + n] = True
                parent = up
        return mask

    def put(self, w):
        w.put(self.name + "/forest", torch.tensor(self.forest))
        w.put(self.name + "/ids", self.ids)
        w.put(self.name + "/target", self.target)
        w.put(self.name + "/weight", self.loss_weight)


def margin(routes, top_k):
    """The smallest gap between a chosen logit and one left out."""
    gaps = []
    for _, logits in routes:
        s = logits.sort(-1, descending=True).values
        gaps.append((s[:, top_k - 1] - s[:, top_k]).min().item())
    return min(gaps)


def put_gradients(w, name, model):
    for full, x in model.leaves.items():
        w.put(f"{name}/{full}", x.grad)


PACKED = [(-1, 1), (-1, 70), (-1, 133)]
TREE = [(-1, 70), (0, 33), (1, 65), (1, 1), (0, 2), (-1, 20)]
CONFIG = os.path.join(HERE, "tiny-model.json")


def write_layers(w):
    for name, i in (("gdn", 0), ("attention", 3)):
        model, routes = Model(CONFIG), []
        batch = Batch("packed", PACKED, 256)
        x = random_values(SEED, name + "/x", (batch.rows, 64))
        x.requires_grad_()
        y = model.layer(x, i, batch, routes)
        dy = random_values(SEED, name + "/dy", (batch.rows, 64))
        (y * dy).sum().backward()
        w.put(name + "/y", y)
        w.put(name + "/dx", x.grad)
        w.put(name + "/routes", routes[0][0])
        put_gradients(w, name, model)
        print(f"{name} layer: routing margin {margin(routes, 2):.1e}")


def write_models(w):
    for name, forest in (("packed", PACKED), ("tree", TREE)):
        model, routes = Model(CONFIG), []
        batch = Batch(name, forest, 256)
        hidden = model.forward(batch, routes)
        loss = model.loss(hidden, batch)
        loss.backward()
        batch.put(w)
        w.put(name + "/loss", loss)
        w.put(name + "/hidden", hidden)
        w.put(name + "/routes", torch.stack([idx for idx, _ in routes]))
        put_gradients(w, name, model)
        print(f"{name}: loss {loss.item():.6f}, routing margin "
              f"{margin(routes, 2):.1e}")
