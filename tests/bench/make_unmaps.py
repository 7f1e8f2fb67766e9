"""usage: make_unmaps.py OUT BLOCKS

Writes a snapshot whose BLOCKS cached blocks of expandable segments give back
the whole pages inside them, as torch.cuda.empty_cache does: none of those
begins where a block does.
"""
import pickle
import sys

MIB = 1 << 20
out, blocks = sys.argv[1], int(sys.argv[2])
BASE = 0x7f0000000000
trace = []


def event(action, addr, size):
    trace.append({"action": action, "addr": addr, "size": size, "stream": 0,
                  "time_us": len(trace), "frames": []})


def place(i):
    """A block of 1 MiB that stays, then one of 5 MiB that goes."""
    return BASE + 6 * MIB * i


event("segment_map", BASE, 6 * MIB * blocks)
for i in range(blocks):
    event("alloc", place(i), MIB)
    event("alloc", place(i) + MIB, 5 * MIB)
for i in range(blocks):
    event("free_requested", place(i) + MIB, 5 * MIB)
    event("free_completed", place(i) + MIB, 5 * MIB)
for i in range(blocks):
    event("segment_unmap", place(i) + 2 * MIB, 4 * MIB)

snapshot = {
    "segments": [
        {"device": 0, "address": place(i), "total_size": 2 * MIB,
         "allocated_size": MIB, "active_size": MIB, "requested_size": MIB,
         "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
         "is_expandable": True, "frames": [],
         "blocks": [{"address": place(i), "size": MIB, "requested_size": MIB,
                     "state": "active_allocated", "frames": []},
                    {"address": place(i) + MIB, "size": MIB,
                     "requested_size": 0, "state": "inactive", "frames": []}]}
        for i in range(blocks)],
    "device_traces": [trace],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF":
                           "expandable_segments:True", "max_split_size": -1,
                           "expandable_segments": True},
    "external_annotations": [],
}
with open(out, "wb") as f:
    pickle.dump(snapshot, f, protocol=4)
