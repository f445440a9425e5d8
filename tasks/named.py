"""Stage `named`: what parameters name, by content -> artifacts/named."""

from stylerl import config
from stylerl.pipeline import named, process


def main() -> None:
    """Write the digests of what params.yaml names."""
    named.write(config.load())


if __name__ == "__main__":
    process.run_main(main)
