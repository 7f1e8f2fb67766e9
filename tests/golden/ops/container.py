"""The file that the tests read, and the numbers they share with us.

File (little endian): "PPGOLDEN", u32 version = 1, u32 arrays; then for each
array u16 length of its name, the name, u8 type (0 f64, 1 i64), u8 dims,
u64 for each dim, and the elements, row-major.

Inputs are not stored: both sides compute them with the counter-based
generator that src/base/random.h defines.
"""
import math
import struct

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def stream_of(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def random_bits(seed, stream, count):
    with np.errstate(over="ignore"):
        key = _mix(np.uint64(seed) + _GOLDEN * (np.uint64(stream)
                                                + np.uint64(1)))
        i = np.arange(1, count + 1, dtype=np.uint64)
        return _mix(key + _GOLDEN * i)


def random_values(seed, name, shape, scale=1.0, offset=0.0):
    """offset + [-scale, scale), the stream being that of the name."""
    bits = random_bits(seed, stream_of(name), math.prod(shape))
    part = (bits >> np.uint64(40)).astype(np.int64) - (1 << 23)
    x = offset + scale * (part.astype(np.float64) * 2.0 ** -23)
    return torch.from_numpy(x.reshape(shape))


class Writer:
    def __init__(self):
        self.arrays = []

    def put(self, name, x):
        if torch.is_tensor(x):
            x = x.detach().numpy()
        x = np.asarray(x)
        kind = 0 if x.dtype.kind == "f" else 1
        data = np.ascontiguousarray(x, dtype=["<f8", "<i8"][kind])
        self.arrays.append((name.encode(), kind, data))

    def save(self, path):
        with open(path, "wb") as f:
            f.write(struct.pack("<8sII", b"PPGOLDEN", 1, len(self.arrays)))
            for name, kind, data in self.arrays:
                f.write(struct.pack("<H", len(name)) + name)
                f.write(struct.pack("<BB", kind, data.ndim))
                f.write(struct.pack("<%dQ" % data.ndim, *data.shape))
                f.write(data.tobytes())
