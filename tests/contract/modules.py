"""How tests import `evaluate` in a process of its own."""

EVALUATE = """
import sys
sys.modules["transformers"] = None
import evaluate
del sys.modules["transformers"]
"""
"""Imports evaluate as if transformers were not installed: with it, evaluate imports all pipelines, which takes 4 s."""
