#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jax_tests_table.py FOLDER: what the JUnit files of scripts/jax_tests.sh and jax_libraries_tests.sh
say, as Markdown: a table by file, and the reasons of the failures, the most frequent first. What
failed in FOLDER/on_xla as well is counted apart."""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

REASON = re.compile(
    r"(?:UNIMPLEMENTED|INVALID_ARGUMENT|RESOURCE_EXHAUSTED|INTERNAL|NotImplementedError|"
    r"Mismatched elements|Not equal to tolerance|worker '\w+' crashed)[^\n]{0,110}"
)


def reason_of(element):
    text = (element.get("message") or "") + (element.text or "")
    found = REASON.search(text)
    line = found.group(0) if found else (element.get("message") or "?").split("\n")[0][:110]
    line = re.sub(r"self = <.*|>   .*", "", line)
    return re.sub(r"\d+", "N", line).strip()


def name_of(case):
    return case.get("classname"), case.get("name")


def failed_on_xla(path):
    if not path.exists():
        return set()
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return {name_of(case) for case in cases if any(c.tag in ("failure", "error") for c in case)}


def main():
    table, reasons = [], collections.Counter()
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob("*.xml")):
        counts = collections.Counter()
        theirs = failed_on_xla(folder / "on_xla" / path.name)
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            outcome = "passed"
            for child in case:
                if child.tag in ("failure", "error"):
                    outcome = "failed"
                    too = name_of(case) in theirs
                    counts["too"] += too
                    reasons[("(XLA's CPU backend, too) " if too else "") + reason_of(child)] += 1
                elif child.tag == "skipped":
                    outcome = "skipped"
            counts[outcome] += 1
        table.append((path.stem, counts))
    print("| file | passed | failed | skipped |\n|---|---|---|---|")
    for name, counts in table:
        print(f"| {name} | {counts['passed']} | {counts['failed']} | {counts['skipped']} |")
    passed = sum(counts["passed"] for _, counts in table)
    failed = sum(counts["failed"] for _, counts in table)
    skipped = sum(counts["skipped"] for _, counts in table)
    too = sum(counts["too"] for _, counts in table)
    share = 100 * passed / max(1, passed + failed)
    print(f"| **all** | **{passed}** | **{failed}** | **{skipped}** |\n")
    also = f" {too} of the failures are XLA's CPU backend's as well." if too else ""
    print(f"{share:.1f} % of what ran passed.{also}\n\n| failures | reason |\n|---|---|")
    for reason, count in reasons.most_common():
        print(f"| {count} | {reason.replace('|', '/')} |")


main()
