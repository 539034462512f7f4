"""Images whose configuration names a user, for tests: busybox with a user list."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .archives import Entry, entry, folder, link

APPLETS = ("sh", "id", "cat", "ls", "mkdir", "stat", "touch", "sleep", "env", "kill", "rm", "pwd")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:1300::/home/app:/bin/sh\nbare:x:1235:1300::/nowhere:/bin/sh\n"
GROUP = b"root:x:0:\napps:x:1300:\nmore:x:1400:root,app\nother:x:1500:root\n"
APP_UID, APP_GID, MORE_GID, OTHER_GID = 1234, 1300, 1400, 1500


def busybox_entries() -> list[Entry]:
    """The entries of a root filesystem with the users `app` and `bare`."""
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("busybox is not installed (Debian package busybox-static)")
    content = Path(os.path.realpath(program)).read_bytes()
    if b"ld-linux" in content[:4096]:
        pytest.skip("busybox is not static: install busybox-static")
    return [
        *(folder(name) for name in ("bin", "etc", "home", "app")),
        folder("tmp", 0o1777),
        folder("root", 0o700),
        folder("home/app", uid=APP_UID, gid=APP_GID),
        entry("home/app/.profile", b"export PROFILE=read\n", uid=APP_UID, gid=APP_GID),
        entry("etc/passwd", PASSWD),
        entry("etc/group", GROUP),
        entry("etc/secret", b"secret\n", mode=0o600),
        entry("bin/busybox", content, mode=0o755),
        *(link(f"bin/{name}", "busybox") for name in APPLETS),
    ]
