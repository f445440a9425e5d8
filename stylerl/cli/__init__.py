"""The `stylerl` command: main.py ends it, commands.py declares it."""
