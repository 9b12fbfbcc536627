"""The only package that talks to the Hub."""
