"""Start the planned jobs of a group, follow them and write the group's report.

Open `launch.py` first. What the verbs share stands here; the parsing of a verb's options belongs in
`experiments.commands`.
"""
