"""Fields of an experiment file: types, defaults, units and the rules between them.

A field is defined only here. Open `fields.py` first. The code that turns fields into jobs belongs in
`experiments.planning`.
"""
