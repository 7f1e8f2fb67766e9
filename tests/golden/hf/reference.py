"""Models of Hugging Face transformers in float64 with peft adapters, filled
by the generator of src/dev/random.h.

transformers casts to float32 inside its norms, routers and delta rule. Here
every such cast is one to float64: the modules see a torch whose float32 is
float64, and Tensor.float() doubles.
"""
import importlib
import math
import types

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


# ---- the generator ---------------------------------------------------------

def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def stream_of(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def random_bits(seed, name, count):
    with np.errstate(over="ignore"):
        key = mix(np.uint64(seed) + GOLDEN * (np.uint64(stream_of(name))
                                              + np.uint64(1)))
        return mix(key + GOLDEN * np.arange(1, count + 1, dtype=np.uint64))


def random_values(seed, name, shape, scale=1.0, offset=0.0):
    bits = random_bits(seed, name, math.prod(shape))
    part = (bits >> np.uint64(40)).astype(np.int64) - (1 << 23)
    x = offset + scale * (part.astype(np.float64) * 2.0 ** -23)
    return torch.from_numpy(x.reshape(shape))


# ---- transformers in float64 ----------------------------------------------

class Double(types.ModuleType):
    """torch, but its float32 is float64."""
    float32 = torch.float64
    float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


FAMILIES = {
    "qwen3_moe": ("qwen3_moe", "Qwen3Moe"),
    "qwen3_next": ("qwen3_next", "Qwen3Next"),
    "qwen3_5_moe_text": ("qwen3_5_moe", "Qwen3_5MoeText"),
    "qwen3_5_text": ("qwen3_5", "Qwen3_5Text"),
    "qwen3": ("qwen3", "Qwen3"),
    "llama": ("llama", "Llama"),
    "mixtral": ("mixtral", "Mixtral"),
    "qwen2_moe": ("qwen2_moe", "Qwen2Moe"),
}


def patch():
    double = Double("torch")
    names = ["modeling_rope_utils", "masking_utils", "integrations.moe"]
    names += [f"models.{m}.modeling_{m}" for m, _ in FAMILIES.values()]
    for name in names:
        importlib.import_module("transformers." + name).torch = double
    torch.Tensor.float = torch.Tensor.double


def make_model(family, config):
    module, cls = FAMILIES[family]
    config_at = importlib.import_module(
        f"transformers.models.{module}.configuration_{module}")
    model_at = importlib.import_module(
        f"transformers.models.{module}.modeling_{module}")
    c = getattr(config_at, cls + "Config")(**config)
    c._attn_implementation = "eager"
    c._experts_implementation = "eager"
    c.use_cache = False
    model = getattr(model_at, cls.replace("Text", "") + "ForCausalLM")(c)
    return model.double().eval()


# ---- weights ---------------------------------------------------------------

def spread(name, shape, centred):
    """Scale and offset of a base tensor (src/dev/random.h)."""
    if name.endswith("linear_attn.norm.weight"):
        return 0.1, 1.0
    if name.endswith("norm.weight"):
        return 0.1, 0.0 if centred else 1.0
    if name.endswith("A_log"):
        return 1.0, 0.0
    if name.endswith("dt_bias"):
        return 1.0, -2.0
    if name.endswith("_proj.bias"):
        return 0.1, 0.0
    if name.endswith("embed_tokens.weight"):
        return 1.0, 0.0
    return math.sqrt(3.0 / shape[-1]), 0.0


class Weights:
    """Base tensors under the names that src/model/param.c gives them."""

    def __init__(self, seed, prefix, centred):
        self.seed, self.prefix, self.centred = seed, prefix, centred

    def base(self, name, shape):
        full = name if name == "lm_head.weight" else self.prefix + name
        scale, offset = spread(name, shape, self.centred)
        return random_values(self.seed, full, shape, scale, offset)

    def fused(self, at, c):
        """in_proj_qkvz and in_proj_ba, grouped by key head."""
        nk, kd = c.linear_num_key_heads, c.linear_key_head_dim
        nv, vd = c.linear_num_value_heads, c.linear_value_head_dim
        h = c.hidden_size
        qkv = self.base(at + "in_proj_qkv.weight", (2 * nk * kd + nv * vd, h))
        z = self.base(at + "in_proj_z.weight", (nv * vd, h))
        b = self.base(at + "in_proj_b.weight", (nv, h))
        a = self.base(at + "in_proj_a.weight", (nv, h))
        return group_qkvz(qkv, z, c), torch.cat(
            [b.reshape(nk, nv // nk, h), a.reshape(nk, nv // nk, h)],
            1).reshape(2 * nv, h)


def group_qkvz(qkv, z, c):
    nk, kd = c.linear_num_key_heads, c.linear_key_head_dim
    nv, vd = c.linear_num_value_heads, c.linear_value_head_dim
    w = qkv.shape[1]
    q, k, v = qkv.split([nk * kd, nk * kd, nv * vd])
    rows = [q.reshape(nk, kd, w), k.reshape(nk, kd, w),
            v.reshape(nk, nv // nk * vd, w), z.reshape(nk, nv // nk * vd, w)]
    return torch.cat(rows, 1).reshape(-1, w)


def fill(model, weights):
    c = model.config
    with torch.no_grad():
        for name, p in model.named_parameters():
            short = name[len("model."):] if name.startswith("model.") else name
            at = short.rsplit(".", 2)[0] + "."
            if short.endswith("in_proj_qkvz.weight"):
                p.copy_(weights.fused(at, c)[0])
            elif short.endswith("in_proj_ba.weight"):
                p.copy_(weights.fused(at, c)[1])
            else:
                p.copy_(weights.base(short, tuple(p.shape)))


# ---- adapters --------------------------------------------------------------

class Site:
    """One adapted projection: its tensors in our layout, as leaves."""

    def __init__(self, seed, full, a_shape, b_shape, width):
        self.name, self.leaf = full, []
        for which, shape, scale in (("A", a_shape, math.sqrt(3.0 / width)),
                                    ("B", b_shape, 0.02)):
            x = random_values(seed, f"{full}.lora_{which}.weight", shape,
                              scale)
            self.leaf.append(x.clone().requires_grad_())

    def delta(self):
        """B A, [out, in] or [experts, out, in], not yet scaled."""
        a, b = self.leaf
        if a.dim() == 3:            # [experts, in, r], [experts, r, out]
            return (a @ b).transpose(1, 2)
        return b @ a


ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]


def layer_sites(layer, c, at, seed, prefix, r):
    """(site, module, parameter name, part) of a layer in order of enum
    site."""
    out = []

    def plain(module, path):
        w = module.weight
        s = Site(seed, prefix + at + path, (r, w.shape[1]), (w.shape[0], r),
                 w.shape[1])
        out.append((s, module, "weight", None))

    def routed(module, name):
        e, rows, cols = getattr(module, name).shape
        s = Site(seed, f"{prefix}{at}mlp.experts.{name}", (e, cols, r),
                 (e, r, rows), cols)
        out.append((s, module, name, None))

    def fused(module):
        h = c.hidden_size
        value = c.linear_num_value_heads * c.linear_value_head_dim
        key = c.linear_num_key_heads * c.linear_key_head_dim
        for path, rows in (("in_proj_qkv", 2 * key + value),
                           ("in_proj_z", value)):
            s = Site(seed, f"{prefix}{at}linear_attn.{path}", (r, h),
                     (rows, r), h)
            out.append((s, module, "weight", path))

    if hasattr(layer, "self_attn"):
        for name in ATTENTION:
            plain(getattr(layer.self_attn, name), "self_attn." + name)
    else:
        g = layer.linear_attn
        if hasattr(g, "in_proj_qkvz"):
            fused(g.in_proj_qkvz)
        else:
            plain(g.in_proj_qkv, "linear_attn.in_proj_qkv")
            plain(g.in_proj_z, "linear_attn.in_proj_z")
        plain(g.out_proj, "linear_attn.out_proj")
    mlp = layer.mlp
    if hasattr(mlp, "experts"):
        if hasattr(mlp, "shared_expert"):
            for name in MLP:
                plain(getattr(mlp.shared_expert, name),
                      "mlp.shared_expert." + name)
        routed(mlp.experts, "gate_up_proj")
        routed(mlp.experts, "down_proj")
    else:
        for name in MLP:
            plain(getattr(mlp, name), "mlp." + name)
    return out


class Adapted:
    """A model whose weights are base + scale B A, for autograd."""

    def __init__(self, model, seed, prefix, r, alpha):
        self.model, self.scale = model, alpha / r
        self.base = {}
        self.parts = []
        for p in model.parameters():
            p.requires_grad_(False)
        for i, layer in enumerate(model.model.layers):
            self.parts += layer_sites(layer, model.config, f"layers.{i}.",
                                      seed, prefix, r)
        for _, module, name, _ in self.parts:
            key = (id(module), name)
            if key not in self.base:
                self.base[key] = (module, name, getattr(module, name).data)

    def leaves(self):
        return [(f"{s.name}.lora_{w}.weight", x)
                for s, _, _, _ in self.parts
                for w, x in zip("AB", s.leaf)]

    def overrides(self):
        """{parameter path: base + scale B A}."""
        path = {id(m): n for n, m in self.model.named_modules()}
        value = {k: v[2] for k, v in self.base.items()}
        half = {}
        for s, module, name, part in self.parts:
            key = (id(module), name)
            if part is None:
                value[key] = value[key] + self.scale * s.delta()
            else:
                half.setdefault(key, {})[part] = s.delta()
        for key, d in half.items():
            value[key] = value[key] + self.scale * group_qkvz(
                d["in_proj_qkv"], d["in_proj_z"], self.model.config)
        return {path[id(m)] + "." + n: value[k]
                for k, (m, n, _) in self.base.items()}

    def logits(self, ids_of_paths):
        values = self.overrides()
        return [torch.func.functional_call(
                    self.model, values, (ids[None],)).logits[0]
                for ids in ids_of_paths]


# ---- batches ---------------------------------------------------------------

class Batch:
    """A forest of segments (parent, tokens) in depth-first order. Every row
    but a leaf's last has the tokens that may follow it as targets; a fifth
    of the rows has none. Without several, a row where the prefix forks has
    none either."""

    def __init__(self, seed, forest, vocab, several):
        self.seg, self.paths, first = [], [], 0
        for parent, tokens in forest:
            self.seg.append((first, tokens, parent))
            first += tokens
        self.rows = first
        self.ids = torch.tensor((random_bits(seed, "tokens", first)
                                 % np.uint64(vocab)).astype(np.int64))
        child = [[j for j, s in enumerate(self.seg) if s[2] == i]
                 for i in range(len(forest))]
        self.labels = []        # (row, target, weight)
        drop = random_bits(seed, "mask", first) % np.uint64(5) == 0
        weight = random_values(seed, "weights", (4 * first,), 0.5, 1.0)
        for i, (start, tokens, _) in enumerate(self.seg):
            for row in range(start, start + tokens):
                last = row == start + tokens - 1
                after = [self.seg[j][0] for j in child[i]] if last \
                    else [row + 1]
                if drop[row] or (len(after) > 1 and not several):
                    continue
                for n, a in enumerate(after):
                    self.labels.append((row, int(self.ids[a]),
                                        float(weight[n * first + row])
                                        / first))
        self.leaf_paths(child)

    def leaf_paths(self, child):
        for i in range(len(self.seg)):
            if child[i]:
                continue
            rows, at = [], i
            while at >= 0:
                start, tokens, parent = self.seg[at]
                rows = list(range(start, start + tokens)) + rows
                at = parent
            self.paths.append(rows)

    def loss(self, adapted):
        logits = adapted.logits([self.ids[p] for p in self.paths])
        row_of = {}
        for p, rows in enumerate(self.paths):
            for i, row in enumerate(rows):
                row_of.setdefault(row, (p, i))
        total = torch.zeros(())
        for row, target, weight in self.labels:
            p, i = row_of[row]
            total = total - weight * F.log_softmax(logits[p][i], -1)[target]
        return total
