"""The record of an experiment: a page to read, its picture and its table, with how they were made."""
