"""Find and delete local state that no run refers to any more.

`rules.py` decides what may be deleted and is pure; open it first. `inventory.py` lists what is on the disk,
`run_references.py` what the tracking server still needs, and `deletion.py` deletes.
"""
