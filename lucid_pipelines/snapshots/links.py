"""Where symbolic links lead, decided on the recorded tree and never by asking the file system (R-43)."""

from __future__ import annotations

from collections.abc import Mapping

_MAX_HOPS = 40
"""As many as Linux follows before it gives up with ELOOP."""


def leaves_tree(link_path: str, links: Mapping[str, str]) -> bool:
    """Whether following the link can step above the root, through other links too.

    A link that dangles or loops inside the tree does not leave it. A component that does not exist counts as
    a directory, since a job may create it later.

    Args:
        link_path: the link, relative to the root.
        links: every link of the tree, path to target, those that are left out included.
    """
    hops = 0
    pending = _steps(links[link_path])
    if links[link_path].startswith("/"):
        return True
    here = link_path.split("/")[:-1]
    while pending:
        step = pending.pop()
        if step == "..":
            if not here:
                return True
            here.pop()
            continue
        here.append(step)
        target = links.get("/".join(here))
        if target is None:
            continue
        hops += 1
        if target.startswith("/"):
            return True
        if hops > _MAX_HOPS:
            return False
        here.pop()
        pending.extend(_steps(target))
    return False


def _steps(target: str) -> list[str]:
    """Path components in reverse, so that the next one is popped from the end."""
    return [step for step in reversed(target.split("/")) if step not in ("", ".")]
