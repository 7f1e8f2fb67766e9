"""usage: torch_facts.py DIR

What PyTorch does on this GPU, as facts to hold ours against: times.csv (the
shapes of bench_device.cu), workspaces.csv (what cuBLAS takes from the caching
allocator, and when), and memory snapshots of small training steps, each as
NAME.pickle with what PyTorch's own counters said in NAME.json.

Each part runs in a process of its own; one that fails does not stop the rest.
"""
import json
import os
import subprocess
import sys

ROWS = 16384


def seconds(f, repeats=5):
    import torch
    times = []
    for i in range(-2, repeats):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        f()
        b.record()
        b.synchronize()
        if i >= 0:
            times.append(a.elapsed_time(b) / 1e3)
    return sorted(times)[repeats // 2]


def times(folder):
    import torch
    import torch.nn.functional as F
    bf = dict(device="cuda", dtype=torch.bfloat16)
    out = open(os.path.join(folder, "times.csv"), "w")
    print("kernel,ms,GB,Tops", file=out, flush=True)

    def say(name, f, gb=0.0, tops=0.0):
        try:
            s = seconds(f)
            print("%s,%.4f,%.4f,%.4f" % (name, s * 1e3, gb, tops), file=out,
                  flush=True)
        except Exception as x:
            print("# %s: %s" % (name, str(x).splitlines()[0]), file=out,
                  flush=True)

    x = torch.randn(1 << 31, **bf)
    y = torch.empty_like(x)
    say("copy", lambda: y.copy_(x), 2 * x.numel() * 2 / 1e9)
    del x, y
    n = 8192
    a, b = torch.randn(n, n, **bf), torch.randn(n, n, **bf)
    say("square", lambda: a @ b, tops=2 * n ** 3 / 1e12)
    a, w = torch.randn(ROWS, 2048, **bf), torch.randn(9216, 2048, **bf)
    say("gemm_qkv", lambda: a @ w.t(), tops=2 * ROWS * 2048 * 9216 / 1e12)
    w = torch.randn(8, 2048, **bf)
    say("gemm_lora", lambda: a @ w.t(), ROWS * 2048 * 2 / 1e9)
    lora = torch.randn(ROWS, 8, **bf)
    say("gemm_lora_grad", lambda: lora.t() @ a, ROWS * 2048 * 2 / 1e9)
    # 128 experts, the same rows each
    e, each = 128, ROWS * 4 // 128
    x = torch.randn(e * each, 2048, **bf)
    w = torch.randn(e, 1024, 2048, **bf)
    offs = torch.arange(1, e + 1, device="cuda", dtype=torch.int32) * each
    say("group_gemm", lambda: torch._grouped_mm(x, w.transpose(1, 2), offs),
        tops=2 * e * each * 2048 * 1024 / 1e12)
    g, v = torch.randn(ROWS, 256, **bf), torch.randn(256, 2048, **bf)
    y = torch.randn(ROWS, 2048, **bf)
    say("gemm_router_bwd", lambda: y.addmm_(g, v),
        tops=2 * ROWS * 256 * 2048 / 1e12)
    w = torch.randn(e, 8, 2048, **bf)
    say("group_gemm_lora", lambda: torch._grouped_mm(x, w.transpose(1, 2),
                                                     offs),
        x.numel() * 2 / 1e9)
    del x, w
    q = torch.randn(1, 16, ROWS, 256, requires_grad=True, **bf)
    k, v = (torch.randn(1, 2, ROWS, 256, requires_grad=True, **bf)
            for _ in range(2))
    pairs = 2 * ROWS * ROWS / 2 * 16 * 256 / 1e12

    def sdpa():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                              enable_gqa=True)
    say("attention", sdpa, tops=2 * pairs)
    try:
        o = sdpa()
        d = torch.randn_like(o)
        say("attention_bwd", lambda: torch.autograd.grad(
            o, (q, k, v), d, retain_graph=True), tops=5 * pairs)
        del o, d
    except Exception as err:
        print("# attention_bwd: %s" % err, file=out)
    del q, k, v
    x = torch.randn(ROWS, 2048, **bf)
    w = torch.randn(2048, **bf)
    say("rms_norm", lambda: F.rms_norm(x, (2048,), w, 1e-6),
        2 * x.numel() * 2 / 1e9)
    g = torch.randn(ROWS * 8, 1024, **bf)
    say("swiglu", lambda: F.silu(g[:, :512]) * g[:, 512:],
        1.5 * g.numel() * 2 / 1e9)
    x = torch.randn(1, 8192, ROWS, **bf)
    w = torch.randn(8192, 1, 4, **bf)
    say("conv", lambda: F.conv1d(x, w, padding=3, groups=8192),
        2 * x.numel() * 2 / 1e9)
    z = torch.randn(ROWS, 8192, **bf)
    r = torch.empty_like(z)
    say("add", lambda: torch.add(z, z, out=r), 3 * z.numel() * 2 / 1e9)
    say("transpose", lambda: z.t().contiguous(), 2 * z.numel() * 2 / 1e9)
    out.close()


def workspaces(folder):
    """Blocks that remain when all tensors are gone, behind each step: what is
    left is cuBLAS's, in the allocator's requested bytes."""
    import gc
    import torch
    out = open(os.path.join(folder, "workspaces.csv"), "w")
    print("after,blocks,bytes", file=out)
    bf = dict(device="cuda", dtype=torch.bfloat16)

    def blocks():
        gc.collect()
        torch.cuda.synchronize()
        return sorted(b["requested_size"] for s in torch.cuda.memory_snapshot()
                      for b in s["blocks"] if b["state"] == "active_allocated")

    def step(name, f):
        try:
            f()
        except Exception as x:
            name += " (failed: %s)" % str(x).splitlines()[0].replace(",", ";")
        left = blocks()
        print("%s,%d,%s" % (name, len(left), "+".join(map(str, left)) or 0),
              file=out, flush=True)

    def mm(**kw):
        a = torch.randn(1024, 512, **bf, **kw)
        b = torch.randn(512, 256, **bf, **kw)
        return a @ b

    def backward():
        mm(requires_grad=True).sum().backward()

    def linear(bias):
        m = torch.nn.Linear(512, 256, bias=bias, **bf)
        m(torch.randn(1024, 512, **bf)).sum().backward()

    def grouped():
        x = torch.randn(1024, 512, **bf)
        w = torch.randn(4, 512, 256, **bf)
        offs = torch.tensor([256, 512, 768, 1024], device="cuda",
                            dtype=torch.int32)
        torch._grouped_mm(x, w, offs)

    def other_stream():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            mm()
        s.synchronize()

    step("nothing", lambda: torch.zeros(1, device="cuda"))
    step("mm forward", mm)
    step("mm backward", backward)
    step("mm backward again", backward)
    step("linear without bias", lambda: linear(False))
    step("linear with bias (cublasLt)", lambda: linear(True))
    step("bmm", lambda: torch.randn(4, 64, 64, **bf) @
         torch.randn(4, 64, 64, **bf))
    step("grouped", grouped)
    step("mm f32", lambda: torch.randn(512, 512, device="cuda") @
         torch.randn(512, 512, device="cuda"))
    step("mm in another stream", other_stream)
    step("mm in a third stream", other_stream)
    step("cleared", torch._C._cuda_clearCublasWorkspaces)
    out.close()


def training(torch, scale, steps):
    """A few layers with work of odd sizes, a side stream, freed caches."""
    bf = dict(device="cuda", dtype=torch.bfloat16)
    d = 256
    ws = [torch.randn(d, d, requires_grad=True, **bf) for _ in range(3)]
    side = torch.cuda.Stream()
    for i in range(steps):
        rows = (scale * (3 + i * 5 % 7)) // 3 + 17 * i
        x = torch.randn(rows, d, **bf)
        kept = []
        for w in ws:
            x = torch.nn.functional.silu(x @ w)
            kept.append(x[: rows // 2].clone())
        logits = x.float().repeat(1, 3)
        loss = logits.logsumexp(1).sum() + sum(t.sum() for t in kept)
        del kept, logits
        loss.backward()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.empty(rows * 700, device="cuda", dtype=torch.uint8)
            y.fill_(1)
        torch.cuda.current_stream().wait_stream(side)
        del x, y, loss
        if i % 3 == 2:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def snapshot(folder, name):
    import torch
    stacks = name == "default"
    torch.cuda.memory._record_memory_history(
        max_entries=100000, context="alloc" if stacks else None,
        stacks="python")
    oom = None
    if "oom" in name:
        torch.cuda.set_per_process_memory_fraction(0.003)
    try:
        training(torch, 1500 if stacks else 6000, 1 if stacks else 4)
        if "oom" in name:
            held = []
            while True:
                held.append(torch.empty(30 << 20, device="cuda",
                                        dtype=torch.uint8))
    except torch.OutOfMemoryError as x:
        oom = str(x)
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(os.path.join(folder, name + ".pickle"))
    stats = torch.cuda.memory_stats()
    keep = {k: v for k, v in stats.items()
            if ".all." in k or k.startswith("num_")}
    with open(os.path.join(folder, name + ".json"), "w") as f:
        json.dump({"torch": torch.__version__,
                   "gpu": torch.cuda.get_device_name(),
                   "PYTORCH_ALLOC_CONF":
                       os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
                   "oom": oom, "stats": keep}, f, indent=1, sort_keys=True)
        f.write("\n")


SNAPSHOTS = {
    "default": "",
    "plain": "",
    "expandable": "expandable_segments:True",
    "oom": "",
    "expandable-oom": "expandable_segments:True",
    "split-limit": "max_split_size_mb:21,garbage_collection_threshold:0.6",
    "roundup": "roundup_power2_divisions:4",
}


def part(what, folder, env=None):
    code = subprocess.call([sys.executable, __file__, folder, what],
                           env=dict(os.environ, **(env or {})), timeout=90)
    print("%-16s %s" % (what, "done" if code == 0 else "failed"), flush=True)
    return code == 0


def main(folder, what=None):
    if what is None:
        good = [part("times", folder), part("workspaces", folder)]
        good += [part(n, folder, {"PYTORCH_CUDA_ALLOC_CONF": c} if c else {})
                 for n, c in SNAPSHOTS.items()]
        return 0 if all(good) else 1
    if what in SNAPSHOTS:
        snapshot(folder, what)
    else:
        {"times": times, "workspaces": workspaces}[what](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
