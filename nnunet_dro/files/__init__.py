"""Files of any kind: written completely or not at all, folders of results, JSON, and the case table."""
