"""Acceptance on a machine with NVIDIA GPUs: `make accept-gpu`.

It runs a short job with each combination of settings that matters on a GPU (a path) and checks what the job reports.
Then it trains the workloads in their real sizes and compares their speeds and losses with the published recipe. Open
`__main__.py` first; `paths.py` has the paths and what each must show. The results are in
`benchmarks/results/gpu-paths.json`, `gpu-workloads.json` and docs/benchmarks.md.
`sweep.py` is `make gpu-sweep`: the product's own sweep and comparison of one workload, a few minutes a call.
"""
