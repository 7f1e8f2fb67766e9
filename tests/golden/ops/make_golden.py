"""Writes ops.bin, layers.bin and model.bin beside this file: values that
tests of the C code compare with, from torch's autograd in float64.

    python3 -m venv venv
    venv/bin/pip install torch==1.13.1 'numpy<2'
    venv/bin/python tests/golden/ops/make_golden.py

Neither the build nor the tests run Python.
"""
import os

import model
import ops
from container import Writer

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    for name, parts in (("ops", [ops.write]),
                        ("layers", [model.write_layers]),
                        ("model", [model.write_models])):
        w = Writer()
        for part in parts:
            part(w)
        w.save(os.path.join(HERE, name + ".bin"))


if __name__ == "__main__":
    main()
