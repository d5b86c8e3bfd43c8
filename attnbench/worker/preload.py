"""What all children need: imported once by the warm server, and by a fresh interpreter before it is confined.

The address space of libraries is no need of a method: a torch built for CUDA takes gigabytes of it.
"""

# torch puts this off until the first backward of a process: half a second that is no method's
import sympy  # noqa: F401 - imported for its effect

import attnbench.workloads.check
import attnbench.workloads.describe
import attnbench.workloads.fidelity
import attnbench.workloads.fit
import attnbench.workloads.footprint
import attnbench.workloads.numerics
import attnbench.workloads.survey
import attnbench.workloads.timing
import attnbench.workloads.train  # noqa: F401 - imported for its effect
