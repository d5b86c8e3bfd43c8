"""Imports that torch puts off until the first backward of a process: half a second that is no method's.

The warm server imports them once; a fresh interpreter before it measures.
"""

import sympy  # noqa: F401 - imported for its effect
