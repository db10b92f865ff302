"""Jobs for tests: their arguments, and processes that run them."""
