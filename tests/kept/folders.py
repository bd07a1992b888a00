"""Where files of earlier versions are kept."""

from pathlib import Path

VERSION_0_2 = Path(__file__).parent / "version_0_2"
