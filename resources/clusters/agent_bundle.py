"""What is sent to a node: the wrapper and the few modules beside it, as one archive named by its content.

Nothing is installed on a node. The archive is unpacked below the node's root into a folder of its own name, so
that two versions never mix and a node that was wiped gets it again.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

_CLUSTERS = "lucid_pipelines.resources.clusters"
MODULES = (
    "lucid_pipelines.domain.errors",
    f"{_CLUSTERS}.attempts",
    f"{_CLUSTERS}.fencing",
    f"{_CLUSTERS}.launcher",
    f"{_CLUSTERS}.layout",
    f"{_CLUSTERS}.node_agent",
    f"{_CLUSTERS}.node_archives",
    f"{_CLUSTERS}.nvml_probe",
    f"{_CLUSTERS}.processes",
    f"{_CLUSTERS}.start_records",
    f"{_CLUSTERS}.wrapper",
)
"""Standard library only, Python 3.9; they import one another and nothing else of ours."""

_MAIN = f"""import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from {_CLUSTERS}.node_agent import main
sys.exit(main(sys.argv))
"""

BOOTSTRAP = """
import sys
if sys.version_info < (3, 9):
    sys.exit("LUCID-OLD-PYTHON " + sys.version.split()[0])
import io, os, shutil, zipfile
root, digest = os.path.expanduser(sys.argv[1]), sys.argv[2]
target = os.path.join(root, "agent", digest)
data = sys.stdin.buffer.read()
if not os.path.isfile(os.path.join(target, "main.py")):
    temporary = target + "." + str(os.getpid()) + ".tmp"
    os.makedirs(temporary)
    zipfile.ZipFile(io.BytesIO(data)).extractall(temporary)
    try:
        os.rename(temporary, target)
    except OSError:
        shutil.rmtree(temporary, True)
print()
print("LUCID-AGENT " + os.path.join(target, "main.py"))
"""
"""Run as ``python3 -I -S -c BOOTSTRAP ROOT DIGEST`` with the archive on standard input; prints where it lies."""


@dataclass(frozen=True, slots=True)
class AgentBundle:
    """The archive (zip) and the SHA-256 that names it, in hexadecimal."""

    digest: str
    data: bytes


@functools.cache
def agent_bundle() -> AgentBundle:
    """The same bytes for the same sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in MODULES:
            package, _, module = name.rpartition(".")
            source = resources.files(package).joinpath(f"{module}.py").read_bytes()
            archive.writestr(zipfile.ZipInfo(f"{Path(*name.split('.'))}.py"), source)
        archive.writestr(zipfile.ZipInfo("main.py"), _MAIN)
    data = buffer.getvalue()
    return AgentBundle(hashlib.sha256(data).hexdigest()[:32], data)
