"""Writes the first inputs of tests/fuzz/corpus for checkpoint, import, miss,
pack, ranks, records, routes and tokens: small ones that are read whole, some
of them from a run of build/peakproof. Run from the repository root.
"""
import json
import os
import struct
import subprocess
import tempfile

CORPUS = "tests/fuzz/corpus"


def put(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    if isinstance(data, str):
        data = data.encode()
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def parts(files):
    return b"".join(b"== " + name.encode() + b"\n" +
                    (text if isinstance(text, bytes) else text.encode())
                    for name, text in files)


# ---- a run: records, miss --------------------------------------------------

SCENARIO = """return {name = "s", about = "x",
  cases = {{name = "c", model = "tiny", layers = 2, cp = 2, waves = 2,
            lora_rank = 2, batch = batch.lengths{40, 24}, estimators = %s}}}
"""


def rows(path):
    with open(path) as f:
        return f.readlines()[1:]


def cut(folder):
    """The run's files; of records those with a number, of inventory ten."""
    files = {}
    for name in os.listdir(folder):
        if name.endswith(".csv"):
            files[name] = rows(os.path.join(folder, name))
    files["records.csv"] = [r for r in files["records.csv"]
                            if r.split(",")[8] != "0"]
    files["inventory.csv"] = files["inventory.csv"][:10]
    with open(os.path.join(folder, "cases.csv")) as f:
        column = f.readline().strip().split(",").index("records")
    cells = files["cases.csv"][0].split(",")
    cells[column] = str(len(files["records.csv"]))
    files["cases.csv"] = [",".join(cells)]
    with open(os.path.join(folder, "run.json")) as f:
        files["run.json"] = [f.read(), "\n"]
    return [(name, "".join(files[name])) for name in sorted(files)]


def run(folder, estimators, *more):
    scenario = os.path.join(folder, "s.lua")
    out = os.path.join(folder, "out")
    with open(scenario, "w") as f:
        f.write(SCENARIO % estimators)
    subprocess.run(["build/peakproof", "run", "--out", out, *more, scenario],
                   check=True, stdout=subprocess.DEVNULL)
    return out


def make_records():
    with tempfile.TemporaryDirectory() as folder:
        out = run(folder, '{"busiest-rank", "per-rank"}', "--misses", "0")
        files = cut(out)
        put("records", "dry", parts(files))
        device = [(name, text.replace("dry,", "cpu,"))
                  for name, text in files]
        put("records", "cpu", parts(device))
        put("records", "latin-1", parts([("peaks.csv", b"dry,s,\xe9")]))
        put("records", "starts", parts([("raw-records.csv", "device,scen")]))
        put("records", "uncommitted", parts(
            [f for f in files if f[0] != "cases.csv"]))
        with open(os.path.join(out, "misses", "s.c.wave0.json")) as f:
            v = json.load(f)
        put("miss", "dry", json.dumps(v, separators=(",", ":")))
        kept = v["peak"]["ranks"][0]["categories"]
        v["peak"]["ranks"][0]["categories"] = {
            "c%d" % i: (1 << 57) - 1 for i in range(65)}
        put("miss", "huge", json.dumps(v, separators=(",", ":")))
        v["peak"]["ranks"][0]["categories"] = kept
        v["peak"] = None
        put("miss", "oom", json.dumps(v, separators=(",", ":")))


# ---- safetensors: checkpoint, tokens ---------------------------------------

def header(tensors, start=0):
    out, at = {}, start
    for name, kind, shape in tensors:
        n = {"F32": 4, "BF16": 2, "I64": 8}[kind]
        for d in shape:
            n *= d
        out[name] = {"dtype": kind, "shape": shape,
                     "data_offsets": [at, at + n]}
        at += n
    return json.dumps(out, separators=(",", ":")) + "\n", at


def tensors(name, list_):
    text, size = header(list_)
    return b"== %s %d\n%s" % (name.encode(), 8 + len(text) - 1 + size,
                              text.encode())


CONFIG = {
    "model_type": "qwen3_moe", "attention_bias": False,
    "decoder_sparse_step": 1, "head_dim": 4, "hidden_act": "silu",
    "hidden_size": 8, "max_position_embeddings": 64, "mlp_only_layers": [],
    "moe_intermediate_size": 2, "norm_topk_prob": True,
    "num_attention_heads": 2, "num_experts": 2, "num_experts_per_tok": 1,
    "num_hidden_layers": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
    "rope_theta": 10000, "tie_word_embeddings": False, "vocab_size": 16,
}
L = "model.layers.0."
WEIGHTS = [
    ("lm_head.weight", [16, 8]), ("model.embed_tokens.weight", [16, 8]),
    ("model.norm.weight", [8]), (L + "input_layernorm.weight", [8]),
    (L + "post_attention_layernorm.weight", [8]),
    (L + "self_attn.q_proj.weight", [8, 8]),
    (L + "self_attn.k_proj.weight", [4, 8]),
    (L + "self_attn.v_proj.weight", [4, 8]),
    (L + "self_attn.o_proj.weight", [8, 8]),
    (L + "self_attn.q_norm.weight", [4]), (L + "self_attn.k_norm.weight", [4]),
    (L + "mlp.gate.weight", [2, 8]),
] + [(L + "mlp.experts.%d.%s_proj.weight" % (e, p),
      [8, 2] if p == "down" else [2, 8])
     for e in range(2) for p in ("gate", "up", "down")]
PEFT = {"peft_type": "LORA", "r": 2, "lora_alpha": 4,
        "target_modules": ["q_proj"], "bias": "none"}


def make_checkpoints():
    config = ("config.json", json.dumps(CONFIG) + "\n")
    half = [(n, "BF16", s) for n, s in WEIGHTS]
    put("checkpoint", "whole", parts([config]) +
        tensors("model.safetensors", half))
    index = {"metadata": {"total_size": 0}, "weight_map": {
        n: "a.safetensors" if i < 5 else "b.safetensors"
        for i, (n, _, _) in enumerate(half)}}
    put("checkpoint", "shards", parts(
        [config, ("model.safetensors.index.json", json.dumps(index) + "\n")]) +
        tensors("a.safetensors", half[:5]) +
        tensors("b.safetensors", half[5:]))
    q = "base_model.model." + L + "self_attn.q_proj.lora_"
    put("checkpoint", "adapters", parts(
        [config, ("adapter_config.json", json.dumps(PEFT) + "\n")]) +
        tensors("adapter_model.safetensors",
                [(q + "A.weight", "F32", [2, 8]),
                 (q + "B.weight", "F32", [8, 2])]))
    put("checkpoint", "empty", parts([("x.safetensors", "{}\n")]))
    put("checkpoint", "raw", parts([("raw.safetensors",
                                     struct.pack("<Q", 1 << 40) + b"{}")]))


def make_tokens():
    put("tokens", "ids", parts([("x.ids", " ".join(map(str, range(18))))]))
    put("tokens", "text", parts([("x.txt", "eighteen bytes or more\n")]))
    p = [1, 2, 3, 4, 5]
    lines = [{"tokens": p + [6, 7, 8], "mask": [0, 0, 1, 1, 1, 1, 1, 1]},
             {"tokens": p + [9, 8, 7, 6], "weights": [1] * 9, "weight": 0.5},
             {"tokens": [299] * 6, "segment": 3}]
    put("tokens", "lines", parts([("x.jsonl", "".join(
        json.dumps(v) + "\n" for v in lines))]))
    put("tokens", "tensors", tensors("labels.safetensors", [
        ("tokens", "I64", [18]), ("targets", "I64", [18]),
        ("weights", "F32", [18]), ("more_rows", "I64", [2]),
        ("more_targets", "I64", [2]), ("more_weights", "F32", [2])]))


# ---- tables: import, routes ------------------------------------------------

def make_tables():
    names = "wave,rank,allocated_bytes,requested_bytes,reserved_bytes,tokens\n"
    put("import", "peaks", parts([("peaks.csv", names +
                                   "0,0,5120,5000,2097152,100\n"
                                   "0,1,6144,6000,2097152,100\n"
                                   "1,0,4608,4600,2097152,100\n")]))
    with open("reports/published/measured-memory.csv") as f:
        lines = f.readlines()
    moe = [x for x in lines if "A3B" in x][:1]
    put("import", "table", parts([("table.csv",
                                   "".join(lines[:3] + moe))]))
    put("routes", "two-layers", "wave,layer,rank,expert,rows\n" + "".join(
        "0,%d,%d,%d,%d\n" % (x, r, e, 10 * r + e)
        for x in range(2) for r in range(2) for e in range(4)))
    put("routes", "waves", "rows,expert,rank,layer,wave\n5,0,0,0,0\n"
        "7,1,0,0,1\n")


# ---- bytes between processes: pack, ranks ----------------------------------

def text(s):
    return struct.pack("<q", len(s)) + s


def make_packs():
    inner = [b"a row\n", b"", b"", b"", b"", b"", b"a case\n"]
    inner = struct.pack("<7Q", *map(len, inner)) + b"".join(inner)
    head = struct.pack("<4q", 6, 1, 0, 2) + text(b"out of memory")
    rest = text(b"table\n") + text(b"{}") + text(b"")
    files = b"".join(struct.pack("<q", k) + text(b"n%d" % k) + text(b"{}\n")
                     for k in (0, 2))
    put("pack", "oom", head + text(inner) + rest + files)
    empty = struct.pack("<7Q", *[0] * 7)
    put("pack", "empty", struct.pack("<4q", 0, 0, 0, 0) + text(b"") +
        text(empty) + text(b"") * 3)
    put("pack", "code", struct.pack("<4q", 1 << 50, 0, 0, 0) + text(b"") +
        text(empty) + text(b"") * 3)
    for name, status, kind, message in (("status", 99, 0, b"why"),
                                        ("kind", 5, 3, b"why"),
                                        ("nul", 5, 0, b"w\0y"),
                                        ("long", 5, 0, 1024 * b"y")):
        put("pack", name, struct.pack("<4q", 1, status, 0, 1) + text(message) +
            text(empty) + text(b"") * 3 + struct.pack("<q", kind) +
            text(b"n") + text(b"{}"))


MAGIC = 0x70656b70726f6f66


def hello(rank, size, version=b"1", token=b"job"):
    return struct.pack("<Qii96s96s128s", MAGIC, rank, size, b"gpu 1", version,
                       token)


def frame(kind, body):
    return struct.pack("<IIQ", 0x70706c6e, kind, len(body)) + body


def make_ranks():
    data = frame(1, b"its bytes") * 3
    lost = frame(2, b"rank 1 ran out of memory".ljust(512, b"\0"))
    share = frame(1, b"8 bytes!") * 3
    answer = struct.pack("<Qi256s", MAGIC, 0, b"")
    put("ranks", "collect", b"\0" + data)
    put("ranks", "failure", b"\0" + lost + data)
    put("ranks", "share", b"\1" + share)
    put("ranks", "told", b"\1" + lost + share)
    put("ranks", "hello", b"\2" + hello(1, 2) + data)
    put("ranks", "stranger", b"\2" + hello(1, 2, token=b"other"))
    put("ranks", "version", b"\2" + hello(1, 2, version=b"2"))
    put("ranks", "answer", b"\3" + answer + share)
    put("ranks", "silent", b"\3" + struct.pack("<Qi256s", MAGIC, 1, b""))
    put("ranks", "refused", b"\3" + struct.pack("<Qi256s", MAGIC, 5,
                                                b"two share a GPU"))


make_records()
make_checkpoints()
make_tokens()
make_tables()
make_packs()
make_ranks()
