"""Show what a command would do, without doing it: the verb `plan`.

A command is prepared as for a start (`experiments.running.launch`), but in a state folder that is deleted at the
end and with a read-only service. Open `dry_run.py` first; `command_plan.py` is the plan as data and as text.
"""
