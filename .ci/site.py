"""Hooks of mkdocs: links to code lead to the repository, and every other link must have a target."""

import html.parser
import os
import pathlib
import re
import urllib.parse

from mkdocs.exceptions import PluginError

LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
# What the search multiplies the score of a page by, so that guides come before packages. A word in a heading counts 1000 times.
RANK = {
    **dict.fromkeys(["docs/GUIDE.md", "docs/OPERATIONS.md", "docs/MIGRATION.md"], 8),
    "docs/STORES.md": 4,
    "docs/PROTOCOL.md": 0.5,
    "CHANGELOG.md": 0.1,
    "api/lock.md": 0.005,
    "api": 0.001,
}
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def on_files(files, config):
    """Lists the packages in the navigation."""
    api = [f.src_uri for f in files.documentation_pages() if f.src_uri.startswith("api/")]
    for entry in config.nav:
        if "Packages" in entry:
            entry["Packages"] = sorted(api, key=lambda uri: ("contrib-" in uri, uri.removesuffix(".md")))
    return files


def on_page_markdown(markdown, page, config, files):
    """Replaces links to files that are no pages by links to the repository, and ranks the page for the search."""
    folder = pathlib.PurePosixPath(page.file.src_uri).parent
    page.meta["search"] = {"boost": RANK.get(page.file.src_uri, RANK.get(str(folder), 1))}

    def target(match):
        path = os.path.normpath(folder / match[2])
        here = REPOSITORY / path
        if files.get_file_from_path(path) or not here.exists():
            return match[0]
        kind = "tree" if here.is_dir() else "blob"
        return f"{match[1]}{config.extra['repository']}/{kind}/main/{path}{match[3] or ''}{match[4]}"

    return LINK.sub(target, markdown)


class Targets(html.parser.HTMLParser):
    """Collects what a page links to, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)
            elif name == "srcset" and value:
                self.links.update(part.split()[0] for part in value.split(","))


def on_post_build(config):
    """Fails if a page links to a file or an anchor that the site does not have."""
    site = pathlib.Path(config.site_dir)
    pages = {p: Targets(p.read_text("utf-8")) for p in site.rglob("*.html") if p.name != "404.html"}
    broken = []
    for page, targets in pages.items():
        for link in targets.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            to = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
            if to.is_dir():
                to /= "index.html"
            anchor = urllib.parse.unquote(url.fragment)
            if not to.exists() or anchor and to in pages and anchor not in pages[to].anchors and page.parent.name != "playground":
                broken.append(f"{page.relative_to(site)}: {link}")
    if broken:
        raise PluginError("broken links:\n" + "\n".join(sorted(broken)))
