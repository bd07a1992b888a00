import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "nnunet_dro" / "viewer" / "assets"
BUILD = ROOT / "viewer-build"
RECORD = json.loads((ASSETS / "niivue.json").read_text())


def test_the_bundle_is_the_one_that_was_recorded():
    assert hashlib.sha256((ASSETS / "niivue.min.js").read_bytes()).hexdigest() == RECORD["sha256"]

    bundle = (ASSETS / "niivue.min.js").read_text(encoding="utf-8")
    assert not re.search(r"</script|<!--", bundle, re.IGNORECASE)
    assert "\r" not in bundle
    # Neither needs the content security policy to allow it.
    assert not re.search(r"\beval\(|new Function\(|WebAssembly|new Worker\(", bundle)
    assert len(bundle) < 1_000_000


def test_versions_are_those_of_the_recipe():
    text = (BUILD / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]

    assert (
        RECORD["version"]
        == json.loads((BUILD / "package.json").read_text())["dependencies"]["@niivue/niivue"]
    )
    for package in RECORD["packages"]:
        assert locked[f"node_modules/{package['name']}"]["version"] == package["version"]
    assert '"resolved"' not in text
    assert all("integrity" in package for name, package in locked.items() if name)


def test_licences_of_all_packages_travel_with_the_code():
    notices = (ASSETS / "THIRD_PARTY.txt").read_text(encoding="utf-8")
    bundle = (ASSETS / "niivue.min.js").read_text(encoding="utf-8")

    for package in RECORD["packages"]:
        assert f"{package['name']} {package['version']} ({package['license']})" in notices
        assert package["license"] in ("BSD-2-Clause", "ISC", "MIT")
    assert "Redistributions in binary form must reproduce" in notices
    assert bundle.startswith("/*!\n" + notices.replace("*/", "* /"))
