"""Writes cases.jsonl: random small models of every family, their losses and
adapter gradients, and the losses and adapters after Adam steps, computed by
transformers and torch in float64 (README.md here).

    python tests/golden/hf/make.py [CASES A FAMILY, 16]
"""
import json
import os
import random
import sys

import torch

import reference as ref

HERE = os.path.dirname(os.path.abspath(__file__))
# A router's choice must not hang on the last bits of f64, nor of f32 in the
# first wave: the smallest gap between a chosen logit and one left out.
MARGIN_FIRST, MARGIN = 1e-3, 1e-5
# Gradients of no size are rounding alone (one row attends to itself); where
# they are huge, transformers' own two forms of the delta rule differ by 3e-12.
LEAST, MOST = 1e-6, 100
STEPS, LONG_STEPS = 5, 20
HYBRID = ("qwen3_next", "qwen3_5_moe_text", "qwen3_5_text")
MOE = ("qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "mixtral", "qwen2_moe")
KEPT = """model_type vocab_size hidden_size intermediate_size
num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act
max_position_embeddings rms_norm_eps tie_word_embeddings rope_parameters
attention_bias mlp_bias qkv_bias use_sliding_window sliding_window layer_types
num_experts num_local_experts num_experts_per_tok moe_intermediate_size
shared_expert_intermediate_size norm_topk_prob decoder_sparse_step
mlp_only_layers linear_conv_kernel_dim linear_key_head_dim
linear_value_head_dim linear_num_key_heads linear_num_value_heads""".split()


def draw_config(d, family):
    heads, kv = d.choice([(1, 1), (2, 1), (2, 2), (4, 2), (4, 1), (6, 2)])
    head = d.choice([8, 16] if family in HYBRID else [4, 8])
    rope = {"rope_type": "default",
            "rope_theta": d.choice([100.0, 1e4, 1e6])}
    c = dict(vocab_size=d.randint(20, 50), hidden_size=heads * head,
             num_hidden_layers=d.randint(1, 3),
             num_attention_heads=heads, num_key_value_heads=kv,
             max_position_embeddings=256,
             rms_norm_eps=d.choice([1e-6, 1e-5, 1e-3]),
             tie_word_embeddings=d.random() < 0.3)
    if family not in ("llama", "mixtral", "qwen2_moe"):
        c["hidden_size"] = d.choice([8, 12, 16])
        c["head_dim"] = head
    if family in HYBRID:
        rope["partial_rotary_factor"] = d.choice([0.25, 0.5, 1.0])
        c["num_hidden_layers"] = d.randint(2, 4)
        c["layer_types"] = [d.choice(["full_attention", "linear_attention",
                                      "linear_attention"])
                            for _ in range(c["num_hidden_layers"])]
        c["layer_types"][d.randint(0, c["num_hidden_layers"] - 1)] = \
            "linear_attention"
        k = d.choice([1, 2])
        c.update(linear_num_key_heads=k,
                 linear_num_value_heads=k * d.choice([1, 2]),
                 linear_key_head_dim=d.choice([4, 8]),
                 linear_value_head_dim=d.choice([4, 8]),
                 linear_conv_kernel_dim=d.choice([2, 4]))
    if family == "llama" and d.random() < 0.6:
        rope.update(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                    high_freq_factor=4.0,
                    original_max_position_embeddings=64)
    if family in MOE:
        e = d.choice([2, 4, 6])
        c["num_local_experts" if family == "mixtral" else "num_experts"] = e
        c["num_experts_per_tok"] = d.randint(1, min(3, e))
        width = "intermediate_size" if family == "mixtral" \
            else "moe_intermediate_size"
        c[width] = d.choice([4, 8])
    if family in ("qwen3_moe", "qwen3_next", "qwen2_moe"):
        c["norm_topk_prob"] = d.random() < 0.7
    if family in ("qwen3_next", "qwen3_5_moe_text", "qwen2_moe"):
        c["shared_expert_intermediate_size"] = d.choice([4, 8])
    if family in ("qwen3", "llama", "qwen3_5_text"):
        c["intermediate_size"] = d.choice([8, 12])
    if family == "qwen2_moe":
        c["qkv_bias"] = d.random() < 0.8
    c["rope_parameters"] = rope
    return c


def draw_forest(d, tree):
    if not tree:
        return [(-1, d.choice([1, 3, 17, 40, 70]))
                for _ in range(d.randint(1, 3))]
    out, path = [(-1, d.randint(2, 20))], [0]
    for i in range(1, d.randint(3, 6)):
        at = d.randint(0, len(path))
        if at < len(path):
            path = path[:at + 1] if d.random() < 0.7 else path[:1]
            out.append((path[-1], d.choice([1, 2, 5, 13, 66])))
        else:
            path = []
            out.append((-1, d.randint(1, 9)))
        path.append(i)
    return out


def saved_config(model):
    c = model.config.to_dict()
    return {k: c[k] for k in KEPT if k in c}


class Margin:
    """Watches every router's logits."""

    def __init__(self, model):
        self.k, self.gap = getattr(model.config, "num_experts_per_tok", 0), 1
        for name, m in model.named_modules():
            if name.endswith("mlp.gate") and hasattr(m, "weight"):
                m.register_forward_hook(self.look)

    def look(self, m, args, out):
        logits = args[0].reshape(-1, m.weight.shape[1]) @ m.weight.T
        s = logits.detach().sort(-1, descending=True).values
        if s.shape[1] > self.k:
            self.gap = min(self.gap,
                           (s[:, self.k - 1] - s[:, self.k]).min().item())


def print_of(name, x):
    """Norm, and product with numbers of the generator: a fingerprint."""
    u = ref.random_values(1, name + "#", tuple(x.shape))
    return [x.norm().item(), (x * u).sum().item()]


def run_case(d, family, seed, steps):
    config = draw_config(d, family)
    tree = d.random() < 0.6
    several = tree and d.random() < 0.6
    forest = draw_forest(d, tree)
    rank = d.choice([1, 2, 4])
    rate = 1e-3 if steps == LONG_STEPS else d.choice([1e-3, 3e-3])
    model = ref.make_model(family, config)
    centred = family in HYBRID
    ref.fill(model, ref.Weights(seed, "model.", centred))
    if config["tie_word_embeddings"]:
        model.tie_weights()
    margin = Margin(model)
    a = ref.Adapted(model, seed, "model.", rank, 32)
    batch = ref.Batch(seed, forest, config["vocab_size"], several)
    if not batch.labels:
        return None
    leaves = a.leaves()
    adam = torch.optim.Adam([x for _, x in leaves], lr=rate)
    losses, grads, first = [], [], 0
    for step in range(steps + 1):
        adam.zero_grad()
        loss = batch.loss(a)
        losses.append(loss.item())
        if step == 0:
            first = margin.gap
            loss.backward()
            grads = [print_of(n, x.grad) for n, x in leaves]
        elif step < steps:
            loss.backward()
        if step < steps:
            adam.step()
    norms = [n for n, _ in grads]
    if first < MARGIN_FIRST or margin.gap < MARGIN \
            or min(norms) < LEAST or max(norms) > MOST:
        return None
    return {"family": family, "seed": seed, "config": saved_config(model),
            "rank": rank, "rate": rate, "forest": forest, "several": several,
            "margin": first, "losses": losses, "gradients": grads,
            "adapters": [print_of(n, x.detach()) for n, x in leaves]}


def main():
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    ref.patch()
    seed = 0
    with open(os.path.join(HERE, "cases.jsonl"), "w") as f:
        for family in ref.FAMILIES:
            n = 0
            while n < each:
                seed += 1
                steps = LONG_STEPS if n == 0 else STEPS
                case = run_case(random.Random(seed), family, seed, steps)
                if case is None:
                    continue
                f.write(json.dumps(case, separators=(",", ":")) + "\n")
                n += 1
            print(family, seed, flush=True)


if __name__ == "__main__":
    main()
