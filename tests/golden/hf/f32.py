"""Writes f32.jsonl: the losses of the Qwen3-MoE cases of cases.jsonl as
transformers and torch compute them in float32, to say how far from float64
that arithmetic itself goes (README.md here).

    python tests/golden/hf/f32.py
"""
import json
import os

import torch

import reference as ref

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILY = "qwen3_moe"


def single(adapted, batch):
    """The f64 weights and adapters, rounded once."""
    adapted.model.float()
    adapted.base = {k: (m, n, w.float())
                    for k, (m, n, w) in adapted.base.items()}
    for site, _, _, _ in adapted.parts:
        site.leaf = [x.detach().float().requires_grad_() for x in site.leaf]
    return batch


def losses_of(case):
    config = dict(case["config"])
    config.pop("model_type")
    model = ref.make_model(FAMILY, config)
    ref.fill(model, ref.Weights(case["seed"], "model.", False))
    if config["tie_word_embeddings"]:
        model.tie_weights()
    adapted = ref.Adapted(model, case["seed"], "model.", case["rank"], 32)
    batch = ref.Batch(case["seed"], case["forest"], config["vocab_size"],
                      case["several"])
    single(adapted, batch)
    leaves = [x for _, x in adapted.leaves()]
    adam = torch.optim.Adam(leaves, lr=case["rate"])
    out = []
    for step in range(6):
        adam.zero_grad()
        loss = batch.loss(adapted)
        assert loss.dtype == torch.float64 and leaves[0].dtype == torch.float32
        out.append(loss.item())
        loss.backward()
        adam.step()
    return out


def main():
    with open(os.path.join(HERE, "cases.jsonl")) as f:
        cases = [json.loads(line) for line in f]
    with open(os.path.join(HERE, "f32.jsonl"), "w") as out:
        for case in cases:
            if case["family"] != FAMILY:
                continue
            line = {"family": FAMILY, "seed": case["seed"],
                    "losses": losses_of(case)}
            worst = max(abs(a / b - 1) for a, b in
                        zip(line["losses"][1:], case["losses"][1:6]))
            print(case["seed"], "%.3g" % worst, flush=True)
            out.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
