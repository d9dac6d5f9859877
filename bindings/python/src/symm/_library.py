"""Loads libsymm and the extension over it.

The library is the one in lib/ beside this file, unless SYMM_LIB names another: the extension asks for libsymm.so.0, and the
dynamic linker answers with a library of that SONAME that is loaded already.
"""

from __future__ import annotations

import ctypes
import os

_override = os.environ.get("SYMM_LIB")
if _override:
    ctypes.CDLL(_override)

from symm import _raw as raw  # noqa: E402 - not before the library is chosen

__all__ = ["BUILT_FOR", "raw", "version"]

BUILT_FOR: int = raw.SYMM_VERSION


def _text(version: int) -> str:
    return f"{version >> 16}.{version >> 8 & 0xFF}.{version & 0xFF}"


def version() -> str:
    """Version of the loaded library, for instance ``"0.2.0"``. [local]"""
    return _text(raw.symm_version())


# The ABI only ever grows within a major version (and its soname).
_loaded = raw.symm_version()
if _loaded >> 16 != BUILT_FOR >> 16 or _loaded >> 8 < BUILT_FOR >> 8:
    raise ImportError(f"libsymm is version {_text(_loaded)}, this package was built for {_text(BUILT_FOR)}")
