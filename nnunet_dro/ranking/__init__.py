"""Rank many methods: ranking schemes, how stable each rank is, tests of all pairs, ranks per stratum."""
