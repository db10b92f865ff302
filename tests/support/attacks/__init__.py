"""Attacks on the product that tests try: damage, hostile files and clients, many followers, long logs."""
