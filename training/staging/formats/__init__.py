"""Read the rows of one data file, one at a time: its compression, encoding and format.

Which files a request names, and other sources of rows, belong to `sources`. Open `readers.py` first.
"""
