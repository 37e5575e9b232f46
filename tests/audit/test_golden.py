"""The auditor reproduces the founding document, row by row, from the legacy pipeline."""

import re
from pathlib import Path

import pytest

from foxhunt.audit import Report, audit_spec
from foxhunt.audit.rows import Row
from foxhunt.audit.spec import load

LEGACY = Path(__file__).parent / "legacy.py"
SAFE, UNSAFE, CHECK = "safe-with-signed", "assumes-non-negative", "needs-verification"
NO_DIRECT_READ = {16, 21, 26}
EXPECTED = dict.fromkeys(range(1, 29), SAFE) | {3: CHECK, 11: UNSAFE, 22: UNSAFE, 23: UNSAFE}
PHASES = {
    **dict.fromkeys((1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 17, 18, 25, 27), "forward"),
    **dict.fromkeys((6, 24), "storage"),
    **dict.fromkeys((20, 22, 28), "backward"),
    **dict.fromkeys((10, 13, 14, 19), "forward, backward"),
    **dict.fromkeys(NO_DIRECT_READ, "indirect"),
    **dict.fromkeys((11, 23), "target"),
}


@pytest.fixture(scope="module")
def report() -> Report:
    return audit_spec(load(f"{LEGACY}:build"))


def row(report: Report, number: int) -> Row:
    return report.rows[number - 1]


def lines(*texts: str) -> list[int]:
    """Line numbers of the fixture that hold a text, in the order of the texts."""
    source = LEGACY.read_text().splitlines()
    return [number for text in texts for number, line in enumerate(source, 1) if text in line]


def test_there_are_the_documents_28_rows_and_no_other(report: Report) -> None:
    assert [item.number for item in report.rows] == list(range(1, 29))
    assert all(item.declared for item in report.rows)
    assert report.counts == {SAFE: 24, CHECK: 1, UNSAFE: 3}


@pytest.mark.parametrize("number", range(1, 29))
def test_row_has_the_documents_verdict(report: Report, number: int) -> None:
    found = row(report, number)
    assert found.verdict == EXPECTED[number], found.evidence
    assert found.direct == (number not in NO_DIRECT_READ)
    assert found.phase == PHASES[number]
    assert bool(found.mitigation) == (found.verdict != SAFE)


def test_row_3_gives_the_rms_ratio_and_the_factor(report: Report) -> None:
    found = row(report, 3)
    assert [hit.rule for hit in found.hits] == ["scale"]
    before, after, factor = (float(text) for text in re.findall(r"(?:is|and|by) (\d[\d.]*)", found.evidence))
    assert 1 / 3 <= before <= 3
    assert after < 1 / 3
    assert factor == after
    assert [site.line for site in found.sites] == lines("mag_concat = torch.cat")


def test_row_11_names_the_orphan_and_the_duplicate(report: Report) -> None:
    found = row(report, 11)
    assert [name.split()[0] for name in found.orphans] == ["iqn_trunk_forward_kernel"]
    assert len(found.duplicates) == 1
    assert "iqn_target_trunk()" in found.duplicates[0]
    assert [site.line for site in found.sites] == lines('return launch_trunk_bias_relu(hidden, w["s2"]')


def test_row_22_names_the_mask_and_its_three_sites(report: Report) -> None:
    found = row(report, 22)
    assert [hit.rule for hit in found.hits] == ["sign-gate"]
    assert [site.line for site in found.sites] == lines("return d * (saved > 0)")
    called = [int(place.rpartition(":")[2]) for place in found.calls]
    expected = lines("relu_mask(bw_d_h_s2", "relu_mask(d_iqn", "relu_mask(d_sync")
    assert sorted(called) == sorted(expected)
    assert lines('relu_mask(d_s2 @ self.online["s2"], h_s1)')[0] not in called


def test_row_23_names_the_second_trunk(report: Report) -> None:
    found = row(report, 23)
    assert [hit.rule for hit in found.hits] == ["duplicate-producer"]
    assert [hit.line for hit in found.hits] == lines("tg_h_s2 = sgemm_fused_relu_bias(tg_h_s1")


def test_every_operation_is_traced_to_a_line(report: Report) -> None:
    assert report.located == report.operations > 300


def test_the_document_says_what_was_surprising(report: Report) -> None:
    text = report.markdown()
    silent = "ISV temporal route (16), branch-decoder VSN and GLU (KAN gate) (21), cross-branch Q-attention (26)"
    assert f"Declared consumers that do not read it: {silent}." in text
    assert "Faults that live only in the backward pass: trunk-backward ReLU mask (22)." in text
    assert "Defined but never run: iqn_trunk_forward_kernel" in text
    assert "assumes-non-negative: 3 (rows 11, 22, 23)" in text
    assert "clamp at the source" in text
