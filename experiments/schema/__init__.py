"""Fields of an experiment file: types, defaults, units and the rules that tie them together.

A field is defined here and nowhere else. Open `fields.py` first. Turning fields into jobs belongs in
`experiments.planning`.
"""
