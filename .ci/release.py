"""Builds what a release consists of into dist/ and checks it: sdist, wheel and a list of components (SBOM).

`python .ci/release.py [--out DIR]` needs the development environment. The same commit gives the same bytes:
times in the files are that of the commit, or SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
NAME = "nacre-memory"
EXTRAS_OF_USERS = (
    "acp", "anthropic", "embed", "langchain", "mcp", "openai", "openai-agents", "postgres", "pydantic-ai",
    "server", "tui",
)  # fmt: skip
"""The extras whose packages the list of components has; those for development are left out."""
LICENCES = ("LICENSE", "NOTICE", "LICENSES/Apache-2.0.txt")
NEEDED = (
    "nacre/__main__.py",
    "nacre/py.typed",
    "nacre/prompts.py",
    "nacre/memory/recall/semantic/model/vocab.txt",
)
"""Files without which the wheel would not work, one of each kind."""
NEVER = re.compile(
    r"(^|/)(\.git|\.venv|\.env|__pycache__|\.hypothesis|shared|node_modules)(/|$)|\.(pyc|pem|key|log)$"
)
"""Paths that no distribution has."""
MAX_WHEEL_BYTES = 40_000_000
"""The weights are 24 MB of it; more would be a mistake."""
MODEL = "all-MiniLM-L6-v2"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist/")
    out = parser.parse_args(argv).out.resolve()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time())
    sdist, wheel = build(out, epoch)
    check_sdist(sdist)
    described = check_wheel(wheel)
    components = out / f"{wheel.name.removesuffix('.whl')}.cdx.json"
    components.write_text(json.dumps(bill(described, wheel, epoch), indent=2, sort_keys=True) + "\n")
    for path in (sdist, wheel, components):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return 0


def commit_time() -> str:
    return subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def build(out: Path, epoch: int) -> tuple[Path, Path]:
    """Build both from a clean folder; returns sdist and wheel."""
    for old in (*out.glob("nacre_memory-*.tar.gz"), *out.glob("nacre_memory-*.whl"), *out.glob("*.cdx.json")):
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    [sdist], [wheel] = out.glob("nacre_memory-*.tar.gz"), out.glob("nacre_memory-*.whl")
    return sdist, wheel


def check_sdist(path: Path) -> None:
    """Raise `SystemExit` unless the sdist has what a build needs and nothing that it must not have."""
    with tarfile.open(path) as packed:
        names = {one.name.partition("/")[2] for one in packed.getmembers()}
        odd = [one.name for one in packed.getmembers() if not (one.isfile() or one.isdir())]
    _refuse([name for name in names if NEVER.search(name)] + odd, f"{path.name} holds")
    _refuse([name for name in ("pyproject.toml", *LICENCES) if name not in names], f"{path.name} lacks")


def check_wheel(path: Path) -> Metadata:
    """Raise `SystemExit` unless the wheel is sound; returns its metadata."""
    with zipfile.ZipFile(path) as opened:
        names = set(opened.namelist())
        [info] = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = Metadata.from_email(opened.read(info), validate=True)  # what an index would refuse
        scripts = opened.read(info.replace("METADATA", "entry_points.txt")).decode()
    folder = info.rpartition("/")[0]
    _refuse([name for name in names if NEVER.search(name)], f"{path.name} holds")
    _refuse([name for name in names if not name.startswith(("nacre/", folder))], f"{path.name} holds")
    wanted = [*NEEDED, *(f"{folder}/licenses/{one}" for one in LICENCES)]
    _refuse([name for name in wanted if name not in names], f"{path.name} lacks")
    if path.stat().st_size > MAX_WHEEL_BYTES:
        raise SystemExit(f"{path.name} has more than {MAX_WHEEL_BYTES:,} bytes")
    if canonicalize_name(described.name) != NAME or "nacre = nacre.__main__:main" not in scripts:
        raise SystemExit(f"{path.name} is not {NAME} with its command")
    return described


def _refuse(names: Sequence[str], what: str) -> None:
    if names:
        raise SystemExit(f"{what} {', '.join(sorted(names)[:10])}")


def bill(described: Metadata, wheel: Path, epoch: int) -> dict[str, Any]:
    """Return the components of nacre with its extras, as CycloneDX 1.6."""
    own = f"pkg:pypi/{NAME}@{described.version}"
    found, edges = components(described)
    required = reachable([*edges[NAME]["required"]], edges)
    listed = [_component(found[name], is_required=name in required) for name in sorted(found)]
    weights = {
        "type": "machine-learning-model",
        "bom-ref": MODEL,
        "name": MODEL,
        "description": "Encoder of notes, changed for nacre; part of the wheel.",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    refs = {name: _purl(found[name]) for name in found}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": NAME,
                "version": str(described.version),
                "purl": own,
                "licenses": [{"expression": described.license_expression}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [*listed, weights],
        "dependencies": [
            {"ref": own, "dependsOn": sorted([MODEL, *(refs[one] for one in _all(edges[NAME]))])},
            *(
                {"ref": refs[name], "dependsOn": sorted(refs[one] for one in _all(edges[name]))}
                for name in sorted(found)
            ),
        ],
    }


Edges = dict[str, dict[str, set[str]]]


def components(described: Metadata) -> tuple[dict[str, metadata.Distribution], Edges]:
    """Return the installed packages that nacre can use, and what each requires, directly or with extras."""
    own = [str(one) for one in described.requires_dist or []]
    found: dict[str, metadata.Distribution] = {}
    edges: Edges = {NAME: {"required": set(), "optional": set()}}
    waiting: list[tuple[str, frozenset[str]]] = [(NAME, frozenset(EXTRAS_OF_USERS))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        mine = edges.setdefault(name, {"required": set(), "optional": set()})
        texts = own if name == NAME else metadata.distribution(name).requires or []
        for wanted, is_extra in requirements(texts, extras):
            other = canonicalize_name(wanted.name)
            if other == NAME:
                continue
            try:
                found[other] = metadata.distribution(other)
            except metadata.PackageNotFoundError:
                raise SystemExit(f"{other} is not installed; install the development environment") from None
            mine["optional" if is_extra else "required"].add(other)
            waiting.append((other, frozenset(wanted.extras)))
    return found, edges


def requirements(texts: Sequence[str], extras: frozenset[str]) -> Iterator[tuple[Requirement, bool]]:
    """Yield what a package requires on this system, and whether only with an extra."""
    for text in texts:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield wanted, False
        elif any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            yield wanted, True


def reachable(names: Sequence[str], edges: Edges) -> set[str]:
    """Return these packages with all that they require."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += edges[name]["required"]
    return seen


def _all(edges: Mapping[str, set[str]]) -> set[str]:
    return edges["required"] | edges["optional"]


def _purl(one: metadata.Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.metadata['Name'])}@{one.version}"


def _component(one: metadata.Distribution, *, is_required: bool) -> dict[str, Any]:
    licence = _licence(one)
    return {
        "type": "library",
        "bom-ref": _purl(one),
        "name": one.metadata["Name"],
        "version": one.version,
        "purl": _purl(one),
        "scope": "required" if is_required else "optional",
        **({"licenses": [licence]} if licence else {}),
    }


def _licence(one: metadata.Distribution) -> dict[str, Any] | None:
    """Return the licence as the package states it: an expression, a name, or its classifier."""
    given: Any = one.metadata
    if expression := given.get("License-Expression"):
        return {"expression": expression}
    classifiers = [text for text in given.get_all("Classifier", []) if text.startswith("License :: ")]
    names = [text.rpartition(" :: ")[2] for text in classifiers if not text.endswith("OSI Approved")]
    short = next((line.strip() for line in str(given.get("License") or "").splitlines() if line.strip()), "")
    name = names[0] if names else short[:100]
    return {"license": {"name": name}} if name else None


if __name__ == "__main__":
    sys.exit(main())
