"""Runs the program on folders that transformers and peft write, and gives
what it writes back to them. Needs a built peakproof; nothing is kept.

    python tests/golden/hf/check.py [build/peakproof]

For every family, in float64: the folder of save_pretrained loads as it is;
after 20 Adam steps the saved adapters are torch's and PeftModel loads them
with our loss; an adapter that peft saves gives peft's loss here.
"""
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import make
import reference as ref

PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1
                          else "build/peakproof")
STEPS, RATE, RANK, ALPHA, SEED = 20, 1e-3, 2, 32, 1
LENGTHS = [17, 40]

SCENARIO = """return {cases = {{
  name = "c", model = "%(model)s/config.json", weights = "%(model)s",
  dtype = "f64", lora_rank = %(rank)d, lora_alpha = %(alpha)d, seed = %(seed)d,
  tokens = "t.ids", batch = batch.lengths{%(lengths)s}, waves = %(waves)d,
  learning_rate = %(rate).17g, cp = %(cp)d, ep = %(ep)d, %(more)s
}}}
"""


def run(folder, model, waves, rate, cp=1, ep=1, more="", save=None):
    """Losses of the waves."""
    with open(os.path.join(folder, "s.lua"), "w") as f:
        f.write(SCENARIO % dict(
            model=model, rank=RANK, alpha=ALPHA, seed=SEED, waves=waves,
            rate=rate, cp=cp, ep=ep, more=more,
            lengths=",".join(map(str, LENGTHS))))
    command = [PROGRAM, "run", "--device", "cpu", "--out", "out", "s.lua"]
    if save:
        command[2:2] = ["--save-adapters", save]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    with open(os.path.join(folder, "out", "losses.csv")) as f:
        return [float(line.split(",")[-1]) for line in list(f)[1:]]


def mean_loss(logits, ids):
    """Over the rows that have a next token, sequences one by one."""
    total, n = torch.zeros(()), 0
    for z, x in zip(logits, ids):
        total = total + F.cross_entropy(z[:-1], x[1:], reduction="sum")
        n += len(x) - 1
    return total / n


def same(what, a, b, limit):
    off = abs(a / b - 1)
    print(f"    {what}: {a:.15g}, {b:.15g}, {off:.1e}")
    if not off <= limit:
        sys.exit("  differs")


def train(adapted, ids):
    leaves = [x for _, x in adapted.leaves()]
    adam = torch.optim.Adam(leaves, lr=RATE)
    losses = []
    for _ in range(STEPS):
        adam.zero_grad()
        loss = mean_loss(adapted.logits(ids), ids)
        loss.backward()
        losses.append(loss.item())
        adam.step()
    return losses + [mean_loss(adapted.logits(ids), ids).item()]


def compare_adapters(folder, adapted):
    """Saved tensors against torch's leaves, by what they add to weights."""
    saved = load_file(os.path.join(folder, "adapter_model.safetensors"))
    worst = 0
    for site, _, _, part in adapted.parts:
        if part is not None:
            continue                # in_proj_qkvz: by its loss alone
        module = site.name
        for which, leaf in zip("AB", site.leaf):
            x = saved[peft_name(module, which)]
            if leaf.dim() == 3 and which == "A":
                e, width, r = leaf.shape
                x = x.reshape(e, r, width).transpose(1, 2)
            elif leaf.dim() == 3:
                e, r, out = leaf.shape
                x = x.reshape(out, r, e).permute(2, 1, 0)
            worst = max(worst, ((x - leaf).norm() / leaf.norm()).item())
    print(f"    adapters after {STEPS} steps: worst {worst:.1e} of a norm")
    if worst > 1e-10:
        sys.exit("  differ")


def peft_name(module, which):
    module = module.replace("experts.gate_up_proj", "experts.base_layer")
    module = module.replace("experts.down_proj", "experts")
    return f"base_model.model.{module}.lora_{which}.weight"


def peft_loss(model, folder, ids):
    from peft import PeftModel
    p = PeftModel.from_pretrained(model, folder,
                                  autocast_adapter_dtype=False)
    with torch.no_grad():
        loss = mean_loss([p(x[None]).logits[0] for x in ids], ids).item()
    return p, loss


def check(family, folder):
    d = random.Random(3)
    config = make.draw_config(d, family)
    model = ref.make_model(family, config)
    ref.fill(model, ref.Weights(7, "model.", family in make.HYBRID))
    model.tie_weights()
    path = os.path.join(folder, "model")
    model.save_pretrained(path, max_shard_size="8KB")
    ids = ref.random_bits(5, "tokens", sum(LENGTHS)) \
        % ref.np.uint64(config["vocab_size"])
    with open(os.path.join(folder, "t.ids"), "w") as f:
        f.write(" ".join(str(int(i)) for i in ids))
    ids = torch.tensor(ids.astype(ref.np.int64)).split(LENGTHS)
    again = ref.make_model(family, config)
    again.load_state_dict(model.state_dict())
    ours = run(folder, "model", STEPS + 1, RATE, save="saved")
    adapted = ref.Adapted(model, SEED, "model.", RANK, ALPHA)
    theirs = train(adapted, ids)
    same("first loss", ours[0], theirs[0], 1e-12)
    same(f"loss after {STEPS} steps", ours[STEPS], theirs[STEPS], 1e-11)
    # the program takes one step more
    run(folder, "model", STEPS, RATE, save="saved")
    compare_adapters(os.path.join(folder, "saved"), adapted)
    experts = getattr(again.config, "num_experts", 0) \
        or getattr(again.config, "num_local_experts", 0)
    p, loss = peft_loss(again, os.path.join(folder, "saved"), ids)
    same("peft's loss with our adapters", loss, ours[STEPS], 1e-12)
    with torch.no_grad():
        for name, x in p.named_parameters():
            if "lora_A" in name:
                x.mul_(1.5)
    p.save_pretrained(os.path.join(folder, "theirs"))
    with torch.no_grad():
        loss = mean_loss([p(x[None]).logits[0] for x in ids], ids).item()
    ours = run(folder, "model", 1, 0, cp=2, ep=2 if experts % 2 == 0
               and experts else 1, more='adapters = "theirs"')
    same("our loss with peft's adapters, two ranks", ours[0], loss, 1e-12)


def main():
    ref.patch()
    for family in ref.FAMILIES:
        print(family, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            check(family, folder)


if __name__ == "__main__":
    main()
