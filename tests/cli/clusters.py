"""Clusters on this machine: one of Ray with two nodes, and one of Slurm with a single node; both have invented GPUs."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CONF = """
ClusterName=t
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={port}
SlurmdPort={next}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:fake:2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start Slurm, with everything that it writes below a folder; gives the environment in which its commands find it."""
    host = socket.gethostname().partition(".")[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = 20_000 + free.getsockname()[1] % 20_000
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    key, munge = folder / "munge.key", folder / "munge"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(_CONF.format(host=host, folder=folder, port=port, next=port + 1))
    devices = [folder / f"gpu{number}" for number in range(2)]
    for device in devices:
        os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"Name=gpu Type=fake File={folder}/gpu[0-1]\n")
    files = [f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    try:
        subprocess.run(["munged", "--force", f"--key-file={key}", *files], check=True)
        for daemon in ("slurmctld", "slurmd"):
            subprocess.run([daemon, "-f", str(folder / "slurm.conf")], env=environment, check=True)
        asked = ["sinfo", "--noheader", "--format=%T"]
        end = time.monotonic() + 60
        while b"idle" not in subprocess.run(asked, env=environment, capture_output=True, check=False).stdout:
            assert time.monotonic() < end
            time.sleep(0.2)
        yield environment
    finally:
        for pid in (folder / "slurmd.pid", folder / "slurmctld.pid", munge / "pid"):
            if pid.exists() and (number := pid.read_text().strip()):
                subprocess.run(["kill", "-9", number], check=False)


@contextmanager
def ray_nodes() -> Iterator[Any]:
    """Start a cluster of Ray: a head without GPUs, and two nodes with one invented GPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, num_gpus=1)
        yield cluster
    finally:
        cluster.shutdown()
