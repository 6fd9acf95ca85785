"""Tables in documents are those of the code. Pages keep their size, and what they link to and name exists."""

import re

import pytest

from harness.cluster import REPOSITORY

SOURCES = ["common/cluster/admin/node_routes.cc", "common/cluster/admin/node_actions.cc", "proxy/routes.cc",
           "target/routes.cc", "target/drives/mountpaths.cc", "target/upstream/requests.cc", "target/upstream/eviction_job.cc",
           "target/upstream/eviction_owner.cc", "target/upstream/inventory.cc", "target/upstream/download.cc"]
WORDS = {"kAll": "GET HEAD PUT POST DELETE PATCH"}


def routes(source):
    """(methods, pattern) of each row of a route table."""
    text = (REPOSITORY / source).read_text()
    rows = re.findall(r'\{(kAll|"[A-Z ]+"),\s*"(/[^"]*)"', text)
    found = [(WORDS.get(methods, methods.strip('"')), pattern) for methods, pattern in rows]
    return found + [("GET HEAD", pattern) for pattern in re.findall(r'route\(context, "(/[^"]*)"', text)]


def test_every_route_is_documented_and_no_other():
    written = [(methods, pattern) for methods, pattern in
               re.findall(r"^\| ([A-Z ]+) \| `(/[^`]*)` \|", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE)]
    in_code = [row for source in SOURCES for row in routes(source)]
    assert len(in_code) > 30
    assert sorted(written) == sorted(in_code)


# --- pages, their links and what they name ---------------------------------------------------------------------------

PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md", "*/README.md", "*/*/README.md", "tests/integration/*/README.md")
               for path in REPOSITORY.glob(pattern) if path.relative_to(REPOSITORY).parts[0] != "build")
COLUMNS = 100
DECISION_WORDS = 1000
NAMED = re.compile(r"`((?:cli|common|deploy|ec|proxy|target|tests)/[\w./-]+\.(?:cc|h|py|md))`")


def name_of(page):
    return str(page.relative_to(REPOSITORY))


def prose(page):
    """The text outside of frames."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Names under which links reach the headings of a page: small letters, hyphens for blanks, no other signs."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w -]", "", text.strip().lower()).replace(" ", "-") for text in shown}


def lost_links(page):
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, heading = link.partition("#")
        goal = page.parent / path if path else page
        if not goal.exists() or (heading and heading not in anchors(goal)):
            lost.append(link)
    return lost


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page):
    assert lost_links(page) == []


def test_lost_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A *title*, `with` signs\n\n[one](#a-title-with-signs) [two](page.md#no-such) [three](none.md) [four](page.md)\n"
                    "```\n# not a heading\n```\n[five](#not-a-heading)\n")
    assert lost_links(page) == ["page.md#no-such", "none.md", "#not-a-heading"]
    assert len(PAGES) > 40 and sum(len(re.findall(r"\]\(", prose(page))) for page in PAGES) > 100


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "decisions"], ids=name_of)
def test_a_decision_fits_on_a_page(page):
    assert len(page.read_text().split()) <= DECISION_WORDS, "what a protocol does in detail goes to docs/protocols"


def test_pages_wrap():
    too_wide = {name_of(page): [line for line in prose(page).splitlines() if len(line) > COLUMNS and not line.startswith("|")]
                for page in PAGES}
    assert {name: lines for name, lines in too_wide.items() if lines} == {}


def test_tests_and_sources_that_pages_name_exist():
    tests = {name for path in (REPOSITORY / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    named = {name_of(page): set(re.findall(r"`(test_\w+)`", page.read_text())) for page in PAGES}
    assert sum(map(len, named.values())) > 100
    assert {name: its - tests for name, its in named.items() if its - tests} == {}
    sources = {name_of(page): {path for path in NAMED.findall(page.read_text()) if not (REPOSITORY / path).exists()} for page in PAGES}
    assert {name: its for name, its in sources.items() if its} == {}


def rows_of(page):
    """The faults that have a row: "C6 to C8, D1" is four of them."""
    rows = set()
    for cell in re.findall(r"^\| ([A-Z]\d[^|]*) \|", page, re.MULTILINE):
        for letter, first, last in re.findall(r"([A-Z])(\d+) to [A-Z]?(\d+)", cell):
            rows |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
        rows |= set(re.findall(r"[A-Z]\d+", cell))
    return rows


def test_faults_that_tests_cite_have_a_row():
    assert rows_of("| C6 to C8, D1 | x |\n| | y |\n| a | b |\n") == {"C6", "C7", "C8", "D1"}
    rows = rows_of((REPOSITORY / "docs/reliability.md").read_text())
    cited = {}
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        for words in re.findall(r"docs/reliability\.md ([A-Z]\d[^.:)]*)|mark\.gate\(\"([A-Z]\d[^:\"]*)", path.read_text()):
            for row in re.findall(r"\b[A-Z]\d+\b", "".join(words)):
                cited.setdefault(row, name_of(path))
    assert len(cited) > 40
    assert {row: path for row, path in cited.items() if row not in rows} == {}
