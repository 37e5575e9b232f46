"""The report's frame: style sheet, printing, and the few pieces of HTML that the report is put together from."""

from collections.abc import Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from foxhunt.evaluate.format import typeset

STYLE: Final = """
:root { --ink: #24292f; --soft: #57606a; --line: #d8dee4; --agent: #12355b; --warn: #8a4b00; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 22px; margin: 0; }
h2 { font-size: 17px; margin: 34px 0 6px; }
p { margin: 6px 0; }
.meta, .note, caption { color: var(--soft); font-size: 13px; }
.verdict { border-left: 5px solid var(--agent); background: #f4f7fa; padding: 14px 18px; margin: 18px 0; }
.verdict p:first-child { font-size: 18px; font-weight: 600; line-height: 1.4; }
.collapse { border-left: 5px solid #e0a030; background: #fff8e8; color: var(--warn); padding: 10px 18px;
  margin: 12px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 8px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; }
tbody tr.agent { font-weight: 600; background: #f4f7fa; }
td.text { font-weight: 400; }
td.text, th.text { text-align: left; white-space: normal; }
table.facts { table-layout: fixed; }
table.facts th { width: 230px; color: var(--soft); font-weight: 500; text-align: left; vertical-align: top; }
table.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
pre { background: #f6f8fa; padding: 10px 14px; font-size: 12.5px; white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); font-size: 13.5px; margin-top: 10px; }
section, .figure { break-inside: avoid; }
@media print {
  @page { size: A4 landscape; margin: 11mm; }
  main { max-width: none; padding: 0; }
  .modebar { display: none !important; }
  tr, .verdict, .collapse { break-inside: avoid; }
  body { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

# A chart is drawn for the width of the screen; paper is narrower.
PRINTING: Final = """
const charts = () => document.querySelectorAll(".js-plotly-plot");
window.addEventListener("beforeprint", () => charts().forEach(c => Plotly.relayout(c, {width: 1020, autosize: false})));
window.addEventListener("afterprint", () => charts().forEach(c => Plotly.relayout(c, {width: null, autosize: true})));
"""


def page(title: str, parts: Sequence[str]) -> str:
    """A whole self-contained page: the chart library is written into it once, nothing is loaded from elsewhere."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n'
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<script>{PRINTING}</script>\n</body>\n</html>\n"
    )


def section(title: str, note: str, *content: str) -> str:
    """A section that paper keeps together: title, a sentence on how to read it, and what is to be read."""
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{said}" + "\n".join(content) + "</section>"


def chart(figure: go.Figure, name: str) -> str:
    """A figure; `name` identifies it in the page."""
    html = to_html(
        figure,
        include_plotlyjs=False,
        full_html=False,
        div_id=name,
        default_height=f"{figure.layout.height}px",
        config={"displayModeBar": False, "responsive": True},
    )
    return f'<div class="figure">{html}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, text: Sequence[int] = (), first: str = "agent") -> str:
    """A table of results; the row whose first cell says `first` is set off, columns in `text` are left-aligned."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=text' if k in text else ''}>{escape(typeset(value))}</{tag}>"
            for k, value in enumerate(values)
        )

    body = "".join(f"<tr{' class=agent' if row[0] == first else ''}>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values below each other."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<table class="facts"><tbody>{body}</tbody></table>'
