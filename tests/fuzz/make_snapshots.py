"""Writes tests/fuzz/corpus/snapshot/protocol2 ... protocol5: one memory
snapshot, laid out as PyTorch's, as Python's pickler writes it. The numbers are
those that tests/unit/test_mem_replay.c expects. Run from the repository root.
"""
import pickle

MIB = 1 << 20
A, B, C, D = 0x7f0000000000, 0x7f0002000000, 0x7f0004000000, 0x7f0100000000
frames = [{"name": "forward", "filename": "model.py", "line": 12},
          {"name": "at::empty" + "<T>" * 90, "filename": "??", "line": 0}]
trace = []


def event(action, addr, size, stream=0):
    trace.append({"action": action, "addr": addr, "size": size,
                  "stream": stream, "time_us": 1700000000000000 + len(trace),
                  "compile_context": "N/A", "user_metadata": "",
                  "frames": frames})


event("alloc", A + 3 * MIB, 4 * MIB)
event("free_requested", A, 3 * MIB - 100)
event("free_completed", A, 3 * MIB - 100)
event("segment_alloc", C, 2000683008)
event("alloc", C, 2000000000)
event("alloc", B + 1024, 512)
event("free_requested", C, 2000000000)
event("segment_alloc", D, 2 * MIB, 77)
event("alloc", D, 100, 77)
event("free_completed", C, 2000000000)
event("segment_free", C, 2000683008)
trace.append({"action": "oom", "device_free": 1 << 63, "size": 512,
              "stream": 0})
event("snapshot", 0, 4197888)
event("alloc", A, 3 * MIB)


def block(address, size, requested):
    return {"address": address, "size": size, "frames": frames,
            "requested_size": requested or size + 512,  # stale when inactive
            "state": "active_allocated" if requested else "inactive"}


def segment(address, kind, stream, blocks):
    size = sum(b["size"] for b in blocks)
    active = [b for b in blocks if b["state"] == "active_allocated"]
    return {"device": 0, "address": address, "total_size": size,
            "allocated_size": sum(b["size"] for b in active),
            "active_size": sum(b["size"] for b in active),
            "requested_size": sum(b["requested_size"] for b in active),
            "stream": stream, "segment_type": kind, "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": frames, "blocks": blocks}


snapshot = {
    "segments": [
        segment(A, "large", 0, [block(A, 3 * MIB, 3 * MIB),
                                block(A + 3 * MIB, 4 * MIB, 4 * MIB),
                                block(A + 7 * MIB, 13 * MIB, 0)]),
        segment(B, "small", 0, [block(B, 1024, 1000),
                                block(B + 1024, 512, 512),
                                block(B + 1536, 2 * MIB - 1536, 0)]),
        segment(D, "small", 77, [block(D, 512, 100),
                                 block(D + 512, 2 * MIB - 512, 0)]),
    ],
    "device_traces": [trace, []],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
        "garbage_collection_threshold": 0.0, "expandable_segments": False,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}},
    "external_annotations": [{"stage": "START", "name": "step", "device": 0,
                              "time_us": 1700000000000000}],
}
for protocol in (2, 3, 4, 5):
    path = "tests/fuzz/corpus/snapshot/protocol%d" % protocol
    with open(path, "wb") as f:
        pickle.dump(snapshot, f, protocol=protocol)
