"""Find and delete local state that no run needs any more: the verb `jobs prune`.

Open `rules.py` first: it decides what may be deleted, and is pure. `inventory.py` lists the disk, `deletion.py`
deletes. What runs refer to is found by `tracking.groups.run_references`.
"""
