"""Release a version: python -m release 1.2.3 [--dry-run], or check what is committed: python -m release."""

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from release.artefacts import RESOLUTIONS, build, claimed, interpreter, try_out
from release.changelog import CHANGELOG, Refused, check_follows, current_version, notes, write_version

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 where the release, or the check, is done, 1 where something stands in its way."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("version", nargs="?", help="the version to release; none: build and check what is committed")
    parser.add_argument("--dry-run", action="store_true", help="all of it, but leave neither commit, tag nor dist/")
    parser.add_argument("--extras", default="", help="what the environments install besides, such as mcp,ontology")
    chosen = parser.parse_args(arguments)
    try:
        release(ROOT, chosen.version, chosen.dry_run, chosen.extras)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


def release(root: Path, version: str | None, dry_run: bool = False, extras: str = "") -> None:
    """Write the version, build, check, tag; the checkout changes when everything else is done, or not at all.

    Raises:
        Refused: the tree is dirty, no branch is checked out to commit to, the tag exists, the version does not follow,
            nothing is unreleased, or the artefacts do not pass.
    """
    if git(root, "status", "--porcelain"):
        raise Refused("The checkout has changes that are not committed. Expected none. Commit them.")
    branch = git(root, "branch", "--show-current")
    if version:
        if not branch:
            raise Refused("HEAD is detached. Expected a branch, to commit the release to. Check one out: git switch.")
        check_follows(version, current_version(root))
        if git(root, "tag", "--list", f"v{version}"):
            raise Refused(f"The tag v{version} exists. Expected a version that is not released. Give another VERSION=.")
    with clean_checkout(root) as checkout:
        if version:
            write_version(checkout, version, datetime.datetime.now(datetime.UTC).date())
            git(checkout, "commit", "--all", "--quiet", "--message", f"release: {version}")
        out = checkout.parent / "dist"
        check(checkout, out, extras)
        said = (checkout / CHANGELOG).read_text(encoding="utf-8")
        (out / "NOTES.md").write_text(notes(said, version or current_version(checkout)) + "\n", encoding="utf-8")
        if dry_run:
            print(f"Dry run: {', '.join(sorted(each.name for each in out.iterdir()))} would be in dist/")
            return
        if version:
            commit = git(checkout, "rev-parse", "HEAD")
            git(root, "merge", "--ff-only", "--quiet", commit)
            git(root, "tag", "--annotate", f"v{version}", "--message", f"kbbench-hf {version}", commit)
        shutil.rmtree(root / "dist", ignore_errors=True)
        shutil.copytree(out, root / "dist")
        if version:
            print(
                f"Tagged v{version} on {branch}. Publish it: git push --follow-tags, and to a package index: "
                ".venv/bin/twine upload dist/kbbench_hf-*"
            )


def check(checkout: Path, out: Path, extras: str = "") -> None:
    """Build into a folder, and try the wheel on each claimed Python that is at hand.

    Raises:
        Refused: the artefacts do not pass, or no Python is at hand.
    """
    wheel, sdist = build(checkout, out)
    for artefact in (wheel, sdist):
        print(f"{artefact.name}: {artefact.stat().st_size / 1e6:.1f} MB, contents as tracked, metadata accepted")
    found = {version: interpreter(version) for version in claimed(checkout)}
    if not any(found.values()):
        raise Refused(f"No Python of {', '.join(found)} is on this machine. Expected one at least. Install it.")
    for version, python in found.items():
        for resolution in RESOLUTIONS:
            if python is None:
                print(f"Python {version}, {resolution} dependencies: NOT TRIED, no such Python here")
            else:
                n = len(try_out(wheel, python, resolution, extras).splitlines())
                print(
                    f"Python {version}, {resolution} dependencies: demo, metrics and evaluate.load work ({n} packages)"
                )


@contextmanager
def clean_checkout(root: Path) -> Iterator[Path]:
    """Give what is committed, in a folder of its own, detached from every branch."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        git(root, "worktree", "add", "--quiet", "--detach", str(checkout))
        try:
            yield checkout
        finally:
            git(root, "worktree", "remove", "--force", str(checkout))


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it printed.

    Raises:
        Refused: it failed.
    """
    done = subprocess.run(["git", *arguments], cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"git {' '.join(arguments)} failed in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
