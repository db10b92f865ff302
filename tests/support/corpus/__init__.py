"""Data files of every accepted and refused kind, and the rows that they contain.

`files.py` writes the files, `accepted.py` and `refused.py` list the cases, and `reading.py` reads them through the
product: when the product's reading changes, only that file has to. `expected.json` has the digest and the first rows of
each case, as version 0.1.0 read them. `python -m tests.support.corpus` prints what differs now, and with `--write`
records it: only for a change that is meant.
"""
