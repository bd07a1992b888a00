"""Files of any kind.

Files that are written whole or not at all, folders of results, JSON, the case table, and logs of
cases.
"""
