"""Linear attention with decay: RetNet, Lightning, Mamba-2, GLA, HGRN2."""
