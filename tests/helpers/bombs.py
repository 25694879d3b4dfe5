"""Small files that would grow, read in a process of their own whose memory is measured."""

import gzip
import os
import random
import subprocess
import sys

# What refusing a file may take. Bombs took 4 to 15 GB, and minutes; starting Python with NumPy,
# SciPy and scikit-learn takes most of the memory here, and nearly all of the time.
MOST_BYTES, MOST_SECONDS = 500 * 10**6, 5.0

# Seconds of the processor, not of the clock: load makes no difference.
_CHILD = """
import re, resource, sys, time
from pathlib import Path
from bayespoint.io.model_file import load
from bayespoint.io.tables import open_chunks, read_table

def in_chunks(path):
    with open_chunks(path) as chunks:
        while chunks.read(1000) is not None:
            pass

start = time.process_time()
try:
    {"load": load, "read_table": read_table, "in_chunks": in_chunks}[sys.argv[1]](sys.argv[2])
    said = "it was read"
except ValueError as error:
    said = str(error)
status = Path("/proc/self/status")
if status.exists():  # what getrusage says counts the parent as well
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"{peak} {time.process_time() - start} {said}")
"""


def outcome(how, path):
    """Peak of memory in bytes, seconds of the processor, and what was said."""
    command = [sys.executable, "-c", _CHILD, how, str(path)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    peak, seconds, said = run.stdout.split(maxsplit=2)
    return int(peak), float(seconds), said.strip()


def write_gzip(path, start, repeated, n_bytes, padding=0):
    """Pack a text that begins so and then repeats, n bytes of it, without having it in memory.

    ``padding``: bytes of letters at random in the end, which lower the ratio.
    """
    part = repeated * (2**20 // len(repeated))
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(start)
        for _ in range(n_bytes // len(part)):
            file.write(part)
        file.write(random.Random(0).randbytes(padding // 2).hex().encode())
    return path
