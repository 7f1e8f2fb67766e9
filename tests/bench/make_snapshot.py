"""usage: make_snapshot.py OUT EVENTS [DEPTH]

Writes a snapshot of about EVENTS trace events laid out as PyTorch's: steps of
a model whose layers allocate and free, stacks of DEPTH frames that are shared
as PyTorch shares them, so that a file of a million events with 110 frames
takes 390 MB. Every size gets segments of its own in the first step and finds
them again in the others, where PyTorch would: at the lowest address.
"""
import heapq
import pickle
import sys

MIB = 1 << 20
out, events = sys.argv[1], int(sys.argv[2])
depth = int(sys.argv[3]) if len(sys.argv) > 3 else 110
BASE = 0x7f0000000000
torch = "/usr/lib/python3/dist-packages/torch/nn/m%d.py"
common = [{"name": "op%d" % i, "filename": torch
           % (i % 40), "line": i} for i in range(2000)]
layers = 40
stacks = {}


def stack(layer, op):
    """A list of its own for each place, made of shared frames."""
    have = stacks.get((layer, op))
    if have is None:
        have = [common[(layer * 31 + op * 7 + i) % len(common)]
                for i in range(depth - 2)]
        have.append({"name": "layer%d" % layer, "filename": "model.py",
                     "line": op})
        have.append({"name": "train", "filename": "train.py", "line": 1})
        stacks[layer, op] = have
    return list(have)


trace = []
time = 1700000000000000


def event(action, addr, size, frames):
    global time
    time += 1
    trace.append({"action": action, "addr": addr, "size": size, "stream": 0,
                  "time_us": time, "compile_context": "N/A",
                  "user_metadata": "", "frames": frames})


top, free = BASE, {}
while len(trace) < events:
    live = []
    for layer in range(layers):
        for op in range(24):
            size = 2 * MIB * (5 + (layer + op) % 11)
            frames = stack(layer, op)
            if free.get(size):
                at = heapq.heappop(free[size])
            else:
                at = top
                top += size
                event("segment_alloc", at, size, frames)
            event("alloc", at, size, frames)
            live.append((at, size))
    for at, size in reversed(live):
        frames = stack(1, 1)
        event("free_requested", at, size, frames)
        event("free_completed", at, size, frames)
        heapq.heappush(free.setdefault(size, []), at)


def segment(at, size):
    return {"device": 0, "address": at, "total_size": size,
            "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [],
            "blocks": [{"address": at, "size": size, "requested_size": 0,
                        "state": "inactive", "frames": []}]}


snapshot = {
    "segments": [segment(at, size)
                 for at, size in sorted((at, size) for size in free
                                        for at in free[size])],
    "device_traces": [trace],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "",
                           "max_split_size": -1,
                           "expandable_segments": False},
    "external_annotations": [],
}
with open(out, "wb") as f:
    pickle.dump(snapshot, f, protocol=4)
