"""Writes folders/FAMILY: tiny models as save_pretrained leaves them, bf16,
some in shards, qwen3_5_moe with its vision tower; with each its tokens
(t.ids) and the mean loss of them as two sequences, in float64 (loss.txt).

    python tests/golden/hf/folders.py
"""
import os
import random
import shutil

import torch

import check
import make
import reference as ref

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = [9, 6]


def vision_model(config):
    """Qwen3.5's whole: the decoder below text_config, beside a tower whose
    patches are a five-dimensional convolution."""
    from transformers.models.qwen3_5_moe import (
        configuration_qwen3_5_moe as c, modeling_qwen3_5_moe as m)
    vision = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2,
                  out_hidden_size=config["hidden_size"], patch_size=2,
                  temporal_patch_size=2, num_position_embeddings=4,
                  deepstack_visual_indexes=[])
    whole = c.Qwen3_5MoeConfig(
        text_config=config, vision_config=vision,
        tie_word_embeddings=config["tie_word_embeddings"])
    whole._attn_implementation = "eager"
    model = m.Qwen3_5MoeForConditionalGeneration(whole)
    model.config.text_config._experts_implementation = "eager"
    return model.double().eval()


def config_of(family):
    d = random.Random(1)
    while True:
        c = make.draw_config(d, family)
        if c["num_hidden_layers"] < 3 and c["hidden_size"] <= 16 \
                and c["num_attention_heads"] <= 2:
            return c


def write(name, family, vision):
    config = config_of(family)
    if vision:
        model = vision_model(config)
        prefix = "model.language_model."
    else:
        model, prefix = ref.make_model(family, config), "model."
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(ref.random_values(1, str(p.shape), p.shape, 0.5, 0.1)
                    .to(torch.bfloat16))
    model.tie_weights()
    model.config.get_text_config().use_cache = False
    text = (ref.random_bits(9, "tokens", sum(LENGTHS))
           % ref.np.uint64(config["vocab_size"])).astype(ref.np.int64)
    ids = torch.tensor(text).split(LENGTHS)
    with torch.no_grad():
        loss = check.mean_loss([model(x[None]).logits[0] for x in ids], ids)
    path = os.path.join(HERE, "folders", name)
    shutil.rmtree(path, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(
        path, max_shard_size="2KB" if family == "mixtral" else "1GB")
    for extra in os.listdir(path):
        if not (extra == "config.json" or "safetensors" in extra):
            os.remove(os.path.join(path, extra))
    with open(os.path.join(path, "t.ids"), "w") as f:
        f.write(" ".join(map(str, text)) + "\n")
    with open(os.path.join(path, "loss.txt"), "w") as f:
        f.write(f"{loss.item():.17g}\n")
    print(name, loss.item(), prefix)


def main():
    ref.patch()
    for family in ref.FAMILIES:
        write(family, family, False)
    write("qwen3_5_moe", "qwen3_5_moe_text", True)


main()
