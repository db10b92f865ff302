"""Container images of AWS: what they contain, which one a job gets, and which jobs they can run.

`published.json` lists families and versions with a date and sources. Open `table.py` first. Images of endpoints are in
`models/endpoints`.
"""
