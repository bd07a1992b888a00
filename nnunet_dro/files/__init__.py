"""Files of any kind: written completely or not at all, folders of results, JSON, the case table, and logs of cases."""
