"""Acceptance on a machine with NVIDIA GPUs: `make accept-gpu`.

It trains along every path that only a GPU has and checks what each job reports, then trains the five workloads in their
real sizes against the published recipe. Open `__main__.py` first; `paths.py` lists the paths and `expectations.py` what
each must show. Results: `benchmarks/results/gpu-paths.json`, `gpu-workloads.json` and docs/benchmarks.md.
"""
