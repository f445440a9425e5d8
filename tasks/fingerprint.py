"""Stage `fingerprint`: what params.yaml names -> digests of its content."""

from stylerl import config
from stylerl.pipeline import fingerprints, process


def main() -> None:
    """Write the digests of what params.yaml names."""
    fingerprints.write(config.load())


if __name__ == "__main__":
    process.run_main(main)
