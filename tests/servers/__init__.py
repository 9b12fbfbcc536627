"""Servers that tests talk to; all listen on 127.0.0.1."""
