"""Start the planned jobs of a group, follow them and write the group's report.

Open `launch.py` first. The verbs of `experiments.commands` call these modules; their options are declared there.
"""
