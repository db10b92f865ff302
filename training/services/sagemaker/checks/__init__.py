"""Rules that a request must keep so that SageMaker does not refuse it after an upload. Pure: no calls to AWS.

Open `request_rules.py` first. Rules of SageMaker's SDK are in `sdk_rules.py` of the room above.
"""
