"""The `stylerl` command: main.py declares it, one module for each long one."""
