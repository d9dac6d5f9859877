"""Ranks find each other and say who they are: docs/tutorial/01-hello-ranks.md."""

import os

import symm

with symm.Group.from_env() as group:
    print(f"rank {group.rank} of {group.size} is process {os.getpid()}")
