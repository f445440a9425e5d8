"""The tables of the documents, from what the benchmarks kept."""

import pytest

from tools import results

OF_RUNS = (  # not of metrics/, which a run of one's own replaces
    "headline", "more", "strict", "cold", "greedy", "credit", "rivals",
    "nearest", "decoded",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_RUNS)
def test_a_document_says_what_was_kept(name: str) -> None:
    documents = [
        (results.ROOT / name).read_text(encoding="utf-8")
        for name in results.DOCUMENTS
    ]
    text = results.TEXTS[name]().rstrip()
    assert any(
        f"<!-- {name} -->\n{text}\n<!-- /{name} -->" in document
        for document in documents
    ), "run `make results`"


def test_only_the_text_between_known_markers_is_replaced(
    tmp_path, monkeypatch
):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    monkeypatch.setitem(results.TEXTS, "x", lambda: "new\n")
    results.fill(page)
    assert page.read_text() == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    monkeypatch.delitem(results.TEXTS, "x")
    with pytest.raises(results.DataError, match="has markers <!-- x -->"):
        results.fill(page)
