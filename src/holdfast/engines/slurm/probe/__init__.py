"""Checks of the cluster: a probe job on a node of each partition, and what it found."""

from .cluster_probe import ClusterProbe
from .probe_result import NodeFacts, ProbeResult, ProbeState, Problem

__all__ = ["ClusterProbe", "NodeFacts", "ProbeResult", "ProbeState", "Problem"]
