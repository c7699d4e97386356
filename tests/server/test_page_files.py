"""The page and its files."""

from pathlib import Path

from pi_actors import open_session
from pi_actors.server import open_server
from pi_actors.server.page_files import FOLDER, TYPES, page_files
from tests.server.asking import asking, error_of


async def test_the_page_is_served_with_its_type_and_a_policy_for_its_own_files_only(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        page = await client.get("/")
        assert page.content == (FOLDER / "index.html").read_bytes()
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'self';")
        assert (await client.get("/index.html")).content == page.content
        assert (await client.head("/")).content == b""
        again = await client.get("/", headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for path in ("/%69ndex.html/", "/..%2Fserving.py", "/page_files.py", "/page/index.html"):
            answer = await client.get(path)
            assert (await error_of(answer, 404))[0] == "not_found", path


def test_only_files_of_known_types_are_served_each_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("index.html", "style.css", "parts/view.js", "icon.svg", "notes.md", ".hidden"):
        (tmp_path / name).write_text(name)
    files = page_files(tmp_path)
    assert sorted(files) == ["/", "/icon.svg", "/index.html", "/parts/view.js", "/style.css"]
    assert files["/parts/view.js"].media_type == "text/javascript; charset=utf-8"
    assert files["/style.css"].media_type == "text/css; charset=utf-8"
    assert files["/icon.svg"].media_type == "image/svg+xml"
    assert len({file.tag for file in files.values()}) == 4


def test_every_file_of_the_page_is_of_a_known_type() -> None:
    assert [path.name for path in FOLDER.rglob("*") if path.is_file() and path.suffix not in TYPES] == []
