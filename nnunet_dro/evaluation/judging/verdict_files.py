"""The verdicts on requirements for other programs: JSON, and the XML of JUnit for pipelines.

A requirement that is not met is a failure in JUnit's words, and one of which one cannot tell an
error: neither is a test that passes, and a pipeline can tell them apart.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from nnunet_dro.evaluation.judging.verdicts import CANNOT_TELL, MET, NOT_MET
from nnunet_dro.files.json_file import json_text
from nnunet_dro.naming import group_name

#: The name of the format of verdicts.json; its number changes with the format.
FORMAT = "nnunet-dro verdicts 1"

#: The files, which an evaluation or comparison without requirements does not have.
VERDICT_FILES = ("verdicts.json", "verdicts.xml")

#: What JUnit calls the verdicts that are not met.
_ELEMENTS = {NOT_MET: "failure", CANNOT_TELL: "error"}

#: Characters that XML 1.0 has no way to write, in names from files.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdict_counts(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many requirements have each verdict, in the order met, not met, cannot tell."""
    counts = Counter(str(record["verdict"]) for record in records)
    return {word: counts[word] for word in (MET, NOT_MET, CANNOT_TELL)}


def verdict_files(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The contents of `VERDICT_FILES`; empty without any requirement.

    Args:
        name: What was judged: the method, or the methods that were compared.
        records: `Outcome.record` of each requirement and row of the table.

    Returns:
        The name of each file to its content. verdicts.json has under ``verdicts``, for each
        record, ``identifier``, ``requirement`` (as written), ``attribute``, ``stratum``, ``label``,
        ``metric``, ``method`` (in a comparison), ``estimand`` (what the value is, in words),
        ``value`` (None where it is undefined), ``comparison``, ``bound`` and ``unit``, ``n`` (cases
        with a value), ``n_patients`` (None where cases count as independent), ``passed``,
        ``verdict`` and ``line`` (one sentence with the reasons).
    """
    if not records:
        return {}
    content = {
        "format": FORMAT,
        "name": name,
        "counts": verdict_counts(records),
        "verdicts": list(records),
    }
    return {"verdicts.json": json_text(content), "verdicts.xml": _junit(name, records)}


def _junit(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """A suite with a test case for each record."""
    counts = verdict_counts(records)
    numbers = {
        "tests": str(len(records)),
        "failures": str(counts[NOT_MET]),
        "errors": str(counts[CANNOT_TELL]),
    }
    suites = ElementTree.Element("testsuites", {"name": "nnunet-dro", **numbers})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _for_xml(name), **numbers})

    for record in records:
        stratum = group_name(record["attribute"], record["stratum"])
        place = f"{stratum} label={record['label']}"
        if record["method"]:
            place = f"method={record['method']} {place}"
        test_case = {
            "classname": _for_xml(record["identifier"]),
            "name": _for_xml(f"{record['requirement']} ({place})"),
        }
        element = ElementTree.SubElement(suite, "testcase", test_case)
        verdict = record["verdict"]
        if verdict in _ELEMENTS:
            reason = {"type": verdict, "message": _for_xml(record["line"])}
            ElementTree.SubElement(element, _ELEMENTS[verdict], reason)

    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _for_xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
