"""A release is whole or not at all, and what checks the code says the same everywhere it is said."""

import datetime
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.__main__ import release
from release.artefacts import check_contents, claimed, interpreter
from release.changelog import Refused, check_follows, current_version, notes, write_version

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERSIONED = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "spaces/leaderboard/requirements.txt")


def read(file: str | Path) -> Any:
    return yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))


def check_schema(name: str, *checked: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{name}", *map(str, checked)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the files that name the version, and a change to release."""
    root = tmp_path / "project"
    for file in VERSIONED:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    version = current_version(root)
    (root / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## Unreleased\n\n- New.\n\n## {version}\n\nOld.\n", encoding="utf-8"
    )
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "someone")
    git(root, "config", "user.email", "someone@example.invalid")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "begin")
    return root


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def following(root: Path) -> str:
    major, minor, _ = current_version(root).split(".")
    return f"{major}.{int(minor) + 1}.0"


def test_a_version_is_written_into_every_file_that_names_it_and_into_the_changelog(project: Path) -> None:
    version, before = following(project), current_version(project)
    write_version(project, version, datetime.date(2030, 1, 2))
    assert current_version(project) == version
    changelog = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    assert (notes(changelog, version), notes(changelog, before), notes(changelog, "Unreleased")) == (
        "- New.",
        "Old.",
        "",
    )
    assert yaml.safe_load((project / "CITATION.cff").read_text())["date-released"] == datetime.date(2030, 1, 2)
    assert f"=={version}\n" in (project / "spaces/leaderboard/requirements.txt").read_text(encoding="utf-8")
    assert git(project, "diff", "--shortstat").split(",")[0].strip() == "4 files changed"


@pytest.mark.parametrize(
    "version", ["0.1.4", "0.1.6", "0.3.0", "1.1.0", "0.2", "0.2.0rc1", "v0.2.0", "00.2.0", "newest"]
)
def test_a_version_that_does_not_follow_is_refused_with_those_that_do(version: str) -> None:
    with pytest.raises(Refused, match=r"0\.1\.5, 0\.2\.0, 1\.0\.0"):
        check_follows(version, current="0.1.4")


@pytest.mark.parametrize("version", ["0.1.5", "0.2.0", "1.0.0"])
def test_the_next_patch_minor_and_major_version_follow(version: str) -> None:
    check_follows(version, current="0.1.4")


def test_what_stands_in_the_way_of_a_release_is_said_and_nothing_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = following(project)
    monkeypatch.setattr(
        "release.__main__.check", lambda *_: pytest.fail("nothing is built before all of it is looked at")
    )
    begun = git(project, "rev-parse", "HEAD")
    git(project, "tag", f"v{version}")
    with pytest.raises(Refused, match="exists"):
        release(project, version)
    git(project, "tag", "--delete", f"v{version}")
    git(project, "switch", "--quiet", "--detach")
    with pytest.raises(Refused, match="HEAD is detached"):
        release(project, version)
    git(project, "switch", "--quiet", "main")
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nOld.\n", encoding="utf-8")
    with pytest.raises(Refused, match="not committed"):
        release(project, version)
    git(project, "commit", "--all", "--quiet", "--message", "nothing new")
    with pytest.raises(Refused, match="says nothing under Unreleased"):
        release(project, version)
    (project / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 7.0.0\n", encoding="utf-8")
    git(project, "commit", "--all", "--quiet", "--message", "another version")
    with pytest.raises(Refused, match=r"CITATION\.cff 7\.0\.0"):
        release(project, version)
    assert git(project, "rev-parse", "HEAD~2") == begun
    assert not git(project, "tag") and not git(project, "status", "--porcelain")
    assert len(git(project, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(("fails", "dry_run"), [(True, False), (False, True), (False, False)])
def test_a_release_is_committed_and_tagged_only_where_its_artefacts_pass(
    project: Path, monkeypatch: pytest.MonkeyPatch, fails: bool, dry_run: bool
) -> None:
    version, begun = following(project), git(project, "rev-parse", "HEAD")

    def check(checkout: Path, out: Path, extras: str) -> None:
        assert current_version(checkout) == version, "what is checked is what would be released"
        out.mkdir()
        (out / "wheel").write_text("built")
        if fails:
            raise Refused("the demo failed")

    monkeypatch.setattr("release.__main__.check", check)
    if fails:
        with pytest.raises(Refused):
            release(project, version)
    else:
        release(project, version, dry_run)
    released = not fails and not dry_run
    assert git(project, "tag") == (f"v{version}" if released else "")
    assert (git(project, "rev-parse", "HEAD") != begun) is released
    assert (project / "dist" / "wheel").exists() is released
    if released:
        assert git(project, "rev-parse", "HEAD") == git(project, "rev-parse", f"v{version}^{{}}")
        assert (project / "dist" / "NOTES.md").read_text(encoding="utf-8") == "- New.\n"
        assert current_version(project) == version


def artefacts(folder: Path, in_wheel: list[str], in_sdist: list[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / "p.whl", folder / "p.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*in_wheel, "p-1.dist-info/METADATA"]:
            archive.writestr(name, "")
    with tarfile.open(sdist, "w:gz") as packed:
        for name in in_sdist:
            packed.addfile(tarfile.TarInfo(f"p-1/{name}"))
    return wheel, sdist


TRACKED = ["kbbench_hf/a.py", "metrics/m/m.py", "README.md", "tests/unit/metrics/t.py", "examples/README.md"]
IN_WHEEL = ["kbbench_hf/a.py", "kbbench_hf/evaluate_modules/m/m.py"]
IN_SDIST = ["kbbench_hf/a.py", "metrics/m/m.py", "README.md", "PKG-INFO", "pyproject.toml", ".gitignore"]


def test_artefacts_that_hold_what_is_tracked_pass(tmp_path: Path) -> None:
    check_contents(*artefacts(tmp_path, IN_WHEEL, IN_SDIST), ROOT, TRACKED)


@pytest.mark.parametrize(
    ("in_wheel", "in_sdist", "words"),
    [
        (IN_WHEEL[:1], IN_SDIST, "p.whl lacks kbbench_hf/evaluate_modules/m/m.py"),
        ([*IN_WHEEL, "kbbench_hf/__pycache__/a.pyc"], IN_SDIST, "p.whl should not hold kbbench_hf/__pycache__/a.pyc"),
        (IN_WHEEL, [*IN_SDIST, "tests/unit/metrics/t.py"], "p.tar.gz should not hold tests/unit/metrics/t.py"),
        (IN_WHEEL, IN_SDIST[1:], "p.tar.gz lacks kbbench_hf/a.py"),
    ],
)
def test_artefacts_that_lack_or_leak_a_file_are_refused(
    tmp_path: Path, in_wheel: list[str], in_sdist: list[str], words: str
) -> None:
    with pytest.raises(Refused, match=re.escape(words)):
        check_contents(*artefacts(tmp_path, in_wheel, in_sdist), ROOT, TRACKED)


def test_the_python_that_runs_here_is_found() -> None:
    found = interpreter(".".join(map(str, sys.version_info[:2])))
    assert found
    assert interpreter("3.99") is None


def test_the_citation_is_one_and_names_the_version_of_the_files() -> None:
    check_schema("citation-file-format", ROOT / "CITATION.cff")
    loaded = read("CITATION.cff")
    assert loaded["version"] == current_version(ROOT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert loaded["authors"] == project["authors"]
    assert loaded["license"] == project["license"]


def test_workflows_are_valid_and_may_do_no_more_than_they_need() -> None:
    check_schema("github-workflows", *WORKFLOWS)
    for found in map(read, WORKFLOWS):
        assert found["permissions"] == {"contents": "read"}
        assert all(job["timeout-minutes"] <= 90 for job in found["jobs"].values())


def test_workflows_pre_commit_and_ci_run_the_same_commands_of_the_makefile() -> None:
    ci, published = read(".github/workflows/ci.yml"), read(".github/workflows/release.yml")
    matrix = ci["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert matrix == claimed(ROOT) == published["jobs"]["artefacts"]["steps"][1]["with"]["python-version"].split()[::-1]
    assert commands(ci["jobs"]["test"]) == ["bash .ci/run"]
    assert commands(published["jobs"]["artefacts"]) == ["make artefacts"]
    (hook,) = (hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"])
    assert (hook["entry"], hook["language"], hook["pass_filenames"]) == ("make check", "system", False)
    run = map(str.strip, (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines())
    assert [line for line in run if line.startswith("make ")] == [
        "make test-all",
        "make test",
        "make test-models",
        "make check",
        "make docs",
    ]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"test", "check", "docs", "artefacts", "release"} <= set(targets)


def commands(job: Any) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]
