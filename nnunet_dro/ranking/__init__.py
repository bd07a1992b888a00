"""Rank many methods: how stable each rank is, tests of all pairs, and ranks per stratum."""
